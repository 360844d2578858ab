"""The line of every key in a TOML text, which `tomllib` does not tell."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.service.config.lines import Duplicate, Place, locate

TEXTS = {
    "a table": ("[a]\nb = 1\n\nc = 2", {("a",): 1, ("a", "b"): 2, ("a", "c"): 4}),
    "a key before every table": ("# [x]\n\nb = 1", {("b",): 3}),
    "a dotted key": ("a.b.c = 1\na.d = 2", {("a",): 1, ("a", "b"): 1, ("a", "b", "c"): 1, ("a", "d"): 2}),
    "blanks around dots": ("a . 'b' = 1", {("a",): 1, ("a", "b"): 1}),
    "a table below one that stands later": ("[a.b]\n[a]", {("a",): 2, ("a", "b"): 1}),
    "a table below one that is never written": ("\n[a.b]", {("a",): 2, ("a", "b"): 2}),
    "an inline table": ("a = { b = 1, c.d = 2 }", {("a",): 1, ("a", "b"): 1, ("a", "c"): 1, ("a", "c", "d"): 1}),
    "an array over several lines": (
        "a = [\n  1, # ]\n  # 2,\n  [3,\n   4],\n]\nb = 5",
        {("a",): 1, ("a", 0): 2, ("a", 1): 4, ("a", 1, 0): 4, ("a", 1, 1): 5, ("b",): 7},
    ),
    "tables in an array": (
        "[[a]]\nb = 1\n[a.c]\n[[a]]\nb = 2\n[a.c]",
        {
            ("a",): 1,
            ("a", 0): 1,
            ("a", 0, "b"): 2,
            ("a", 0, "c"): 3,
            ("a", 1): 4,
            ("a", 1, "b"): 5,
            ("a", 1, "c"): 6,
        },
    ),
    "quoted keys": ('["a.b"]\n"c\\u0041 = " = 1\n\'#\' = 2', {("a.b",): 1, ("a.b", "cA = "): 2, ("a.b", "#"): 3}),
    "text over several lines": ('a = """\nb = 1\n\\""" ""\n"""""\nc = 2', {("a",): 1, ("c",): 5}),
    "literal text over several lines": ("a = '''\nb = 1\\'''\nc = 2", {("a",): 1, ("c",): 3}),
    "text that looks like TOML": ("a = '[b]' # = \nc = \"# d = [\"\ne = 1", {("a",): 1, ("c",): 2, ("e",): 3}),
    "dates": ("a = 1979-05-27 07:32:00Z # b\nc = 1979-05-27 # d\ne = 1", {("a",): 1, ("c",): 2, ("e",): 3}),
    "line ends of Windows": ("[a]\r\n# x\r\nb = [\r\n1]\r\n", {("a",): 1, ("a", "b"): 3, ("a", "b", 0): 4}),
    "nothing": ("", {}),
}


@pytest.mark.parametrize(("text", "lines"), TEXTS.values(), ids=TEXTS)
def test_every_key_is_found_in_its_line(text: str, lines: dict[Place, int]) -> None:
    assert set(lines) == set(_places(tomllib.loads(text)))
    assert locate(text).lines == lines


def _places(value: Any, place: Place = ()) -> Iterator[Place]:
    """The places of all that a document holds."""
    if place:
        yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*place, key))


# Keys and texts that are hard on a scanner.
KEYS = st.sampled_from(
    ["a", "b", "c-d", "1", "'a'", '"a"', "'x.y'", '"z = ["', "'# no'", '"\\u0062"', '"\\""', "''", "a . b", "'[a]'.c"]
)
DECOYS = ["# [a]", "[[b]]", "a = 1", "]", "}", "\\\\", "#", ",", "", "'", "x\r\n[a]\nb = 2", "é ☃"]


@st.composite
def _values(draw: st.DrawFn, depth: int = 0) -> str:
    """A value as it is written; every `@` will be a number that stands nowhere else."""
    kinds = ["mark", "text", "long text", "literal", "long literal", "other", *["array", "table"] * (depth < 3)]
    match draw(st.sampled_from(kinds)):
        case "text":
            return json.dumps(draw(st.sampled_from(DECOYS)))
        case "long text":
            return f'"""{draw(st.sampled_from(DECOYS))}{draw(st.sampled_from(["", chr(34), chr(34) * 2]))}"""'
        case "literal":
            return f"'{draw(st.sampled_from(['', '[a]', '# b', ']', chr(34)]))}'"
        case "long literal":
            return f"'''{draw(st.sampled_from(DECOYS))}'''"
        case "other":
            return draw(st.sampled_from(["true", "1979-05-27 07:32:00.5", "1979-05-27", "07:32:00", "-inf", "0x1F"]))
        case "array":
            items = draw(st.lists(_values(depth + 1), max_size=3))
            blank = draw(st.sampled_from(["", " ", "\n", " # ]\n\t", "\r\n"]))
            comma = draw(st.sampled_from(["", ","])) if items else ""
            return f"[{blank}{f'{blank},{blank}'.join(items)}{comma}{blank}]"
        case "table":
            pairs = draw(st.lists(st.tuples(KEYS, _values(depth + 1)), max_size=3, unique_by=lambda pair: pair[0]))
            return "{" + ", ".join(f"{key} = {value}" for key, value in pairs) + " }"
    return "@"


STATEMENTS = st.one_of(
    st.builds("[{}]".format, KEYS),
    st.builds("[[ {} ]]".format, KEYS),
    st.builds("{} ={}".format, KEYS, _values()),
    st.sampled_from(["", "# a = 1", "\t# [[a]]"]),
)


@given(st.lists(st.tuples(STATEMENTS, st.sampled_from(["\n", "\r\n", " # = [\n"])), max_size=12))
def test_whatever_tomllib_parses_is_found_where_it_is_written(statements: list[tuple[str, str]]) -> None:
    text, marks = "", 0
    for statement, end in statements:
        for _ in range(statement.count("@")):
            statement = statement.replace("@", str(7_000_000 + marks), 1)
            marks += 1
        if _is_toml(text + statement + end):  # what contradicts the text before it is left out
            text += statement + end
    document = tomllib.loads(text)
    found = locate(text)
    assert set(found.lines) == set(_places(document))
    assert found.duplicates == ()
    rows = text.split("\n")
    for place in _places(document):
        value = document
        for key in place:
            value = value[key]  # type: ignore[index]
        line = rows[found.lines[place] - 1]
        if isinstance(value, int) and value >= 7_000_000:
            assert str(value) in line
        if isinstance(place[-1], str):
            assert place[-1] in line or "\\" in line


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


@given(st.text(alphabet="[]{}=.,#'\"\\\n\r\t ab1-", max_size=40))
def test_no_text_makes_it_raise_and_all_of_what_is_toml_is_found(text: str) -> None:
    found = locate(text)
    if _is_toml(text):
        assert set(found.lines) == set(_places(tomllib.loads(text)))


@pytest.mark.parametrize(
    ("text", "twice"),
    [
        ("a = 1\n\na = 2", Duplicate(("a",), 1, 3)),
        ("[a]\nb = 1\n[a]", Duplicate(("a",), 1, 3)),
        ("a = { b = 1, 'b' = 2 }", Duplicate(("a", "b"), 1, 1)),
    ],
)
def test_a_key_that_is_written_twice_is_told(text: str, twice: Duplicate) -> None:
    assert locate(text).duplicates == (twice,)


def test_what_is_not_found_is_looked_for_around_it() -> None:
    lines = locate("\n[a]\nb = 1")
    assert (lines.of(("a", "b", 0, "c")), lines.of(("a", "x")), lines.of(("x",))) == (3, 2, None)
