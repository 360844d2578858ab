"""YAML as plain JSON data, with the line of every value, and kind words about what YAML reads otherwise than people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

MAX_BYTES: Final = 1_048_576
_MAX_VALUES: Final = 100_000  # after aliases are replaced by what they refer to
_MAX_DEPTH: Final = 64

_TAG: Final = "tag:yaml.org,2002:"
_YAML_11_BOOLEAN: Final = re.compile(r"(?i:yes|no|on|off)")
_SEXAGESIMAL: Final = re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?")
_LEADING_ZERO: Final = re.compile(r"[-+]?0[0-9_]+")


@dataclass(slots=True)
class Value:
    """A value of a document: plain data, its line, and its parts."""

    data: Any
    line: int
    keys: dict[str, Value] = field(default_factory=dict)
    items: list[Value] = field(default_factory=list)
    written: str = ""  # a scalar without quotes, as it is written


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with a document, in one of its lines."""

    line: int
    message: str
    is_ambiguity: bool = False  # superfluous where the value is wrong anyway


def ambiguity_of(text: str) -> str | None:
    """Why text should have quotes, though YAML 1.2 does not demand them.

    >>> ambiguity_of("on")
    'on is text here, but true or false to other readers of YAML; write "on" with quotes, or true or false'
    >>> ambiguity_of("one")
    """
    if _YAML_11_BOOLEAN.fullmatch(text):
        return (
            f'{text} is text here, but true or false to other readers of YAML; write "{text}" with quotes, or true '
            "or false"
        )
    if _SEXAGESIMAL.fullmatch(text):
        return (
            f'{text} is text here, but a number to other readers of YAML; write "{text}" with quotes, or a duration '
            "like 12m30s"
        )
    if _LEADING_ZERO.fullmatch(text):
        return f'{text} is a decimal number to some readers of YAML and octal to others; write "{text}" with quotes'
    return None


def parse(text: str) -> tuple[list[Value], list[Flaw]]:
    """The documents of a text, and what is wrong with them.

    >>> documents, flaws = parse("name: fulfil\\nsteps: []\\n")
    >>> documents[0].data, documents[0].keys["steps"].line, flaws
    ({'name': 'fulfil', 'steps': []}, 2, [])
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return [], [Flaw(1, f"larger than {MAX_BYTES:,} bytes; split it into several files")]
    reader = _Reader()
    documents: list[Value] = []
    try:
        for node in YAML(typ="safe", pure=True).compose_all(text):
            if node is not None:
                documents.append(reader.value(node, 0))
    except _TooLarge as error:
        reader.flaws.append(Flaw(error.line, "aliases or nesting make it too large; write it without them"))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reasons = [str(each) for each in (error.context, error.problem) if each]
        reader.flaws.append(Flaw(mark.line + 1 if mark else 1, f"not valid YAML: {', '.join(reasons)}"))
    except RecursionError:
        reader.flaws.append(Flaw(1, "nested too deeply"))
    except (YAMLError, ValueError) as error:  # a character that YAML does not allow
        reason = str(error).partition("\n")[0]
        position = getattr(error, "position", 0)
        reader.flaws.append(Flaw(text.count("\n", 0, position) + 1, f"not valid YAML: {reason}"))
    return documents, reader.flaws


class _TooLarge(Exception):
    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _Reader:
    """Builds values from the nodes of ruamel.yaml, which know lines, quotes and duplicate keys."""

    def __init__(self) -> None:
        self.flaws: list[Flaw] = []
        self._values = 0

    def value(self, node: Any, depth: int) -> Value:
        line = node.start_mark.line + 1
        self._values += 1
        if self._values > _MAX_VALUES or depth > _MAX_DEPTH:  # an alias can even contain itself
            raise _TooLarge(line)
        kind = str(node.tag).removeprefix(_TAG)
        if kind == "map":
            keys = {key: self.value(inner, depth + 1) for key, inner in self._pairs(node, depth)}
            return Value({key: inner.data for key, inner in keys.items()}, line, keys)
        if kind == "seq":
            items = [self.value(inner, depth + 1) for inner in node.value]
            return Value([inner.data for inner in items], line, items=items)
        return self._scalar(node, kind, line)

    def _pairs(self, node: Any, depth: int) -> Iterator[tuple[str, Any]]:
        """The keys of a mapping with their nodes; `<<` merges others, whose keys do not replace its own."""
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if str(key_node.tag) == f"{_TAG}merge":
                for other in value_node.value if str(value_node.tag) == f"{_TAG}seq" else [value_node]:
                    if str(other.tag) != f"{_TAG}map" or depth > _MAX_DEPTH:
                        self.flaws.append(Flaw(line, "<< merges mappings only"))
                    else:
                        for key, inner in self._pairs(other, depth + 1):
                            merged.setdefault(key, inner)
                continue
            if str(key_node.tag) != f"{_TAG}str":
                shown = key_node.value if isinstance(key_node.value, str) else "this key"
                self.flaws.append(Flaw(line, f'{shown}: keys are text; write it with quotes, as "{shown}"'))
                continue
            if key_node.value in own:
                first = own[key_node.value].start_mark.line + 1
                self.flaws.append(Flaw(line, f"{key_node.value}: defined twice, first on line {first}"))
            own[key_node.value] = value_node
        yield from own.items()
        yield from ((key, inner) for key, inner in merged.items() if key not in own)

    def _scalar(self, node: Any, kind: str, line: int) -> Value:
        text, is_plain = str(node.value), node.style is None
        if kind == "str":
            if is_plain and (reason := ambiguity_of(text)) is not None:
                self.flaws.append(Flaw(line, reason, is_ambiguity=True))
            return Value(text, line, written=text if is_plain else "")
        data: Any = None
        if kind == "bool":
            data = text.lower() == "true"
        elif kind == "int":
            data = self._integer(text, line)
        elif kind == "float":
            data = self._float(text, line)
        elif kind == "timestamp":
            self.flaws.append(Flaw(line, f'{text} is a date to readers of YAML; write "{text}" with quotes'))
            data = text
        elif kind != "null":
            self.flaws.append(Flaw(line, f"tags are not supported: remove {node.tag}"))
        return Value(data, line, written=text)

    def _integer(self, text: str, line: int) -> int:
        if (reason := ambiguity_of(text)) is not None:
            self.flaws.append(Flaw(line, reason))
            return 0
        try:
            return int(text.replace("_", ""), 0)
        except ValueError:
            self.flaws.append(Flaw(line, f"{text} is not a number that can be stored; write it with quotes"))
            return 0

    def _float(self, text: str, line: int) -> float:
        try:
            number = float(text.replace("_", ""))
        except ValueError:  # .inf, .nan
            number = float("nan")
        if number - number != 0:
            self.flaws.append(Flaw(line, f"{text} has no JSON form; write it with quotes, or another number"))
            return 0.0
        return number
