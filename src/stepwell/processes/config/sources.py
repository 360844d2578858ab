"""Where a configuration of main processes comes from: TOML, YAML or Python, with the place of every value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepwell.service.config.document import Unreadable, read_document
from stepwell.workflow.yaml.document import Value, parse


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Plain data, and where each place in it was written."""

    data: Any
    name: str
    line_of: Callable[[tuple[str | int, ...]], int | None]

    def where(self, place: tuple[str | int, ...]) -> str:
        line = self.line_of(place)
        return self.name if line is None else f"{self.name}:{line}"


def read_file(path: Path) -> tuple[ConfigSource | None, list[str]]:
    """The content of a file, and why it cannot be read. The suffix decides: .yaml and .yml, else TOML."""
    try:
        if path.suffix.lower() in (".yaml", ".yml"):
            return _yaml(path)
        document = read_document(path, {})
    except Unreadable as error:
        return None, [str(error)]
    return ConfigSource(document.tables, str(path), document.lines.of), []


def of_python(settings: Mapping[str, Any], name: str) -> ConfigSource:
    """A mapping of a program: no lines."""
    return ConfigSource(settings, name, lambda place: None)


def _yaml(path: Path) -> tuple[ConfigSource | None, list[str]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise Unreadable(f"{path}: cannot be read: {error.strerror or error}") from None
    documents, flaws = parse(text)
    problems = [f"{path}:{flaw.line}: {flaw.message}" for flaw in flaws]
    if len(documents) != 1:
        found = f"{len(documents)} documents" if documents else "nothing"
        return None, problems or [f"{path}: expected one document with main_processes and tasks, found {found}"]
    root = documents[0]
    return ConfigSource(root.data, str(path), lambda place: _line_in(root, place)), problems


def _line_in(value: Value, place: tuple[str | int, ...]) -> int:
    """The line of a place, or of the nearest enclosing one."""
    for part in place:
        inner = value.items[part] if isinstance(part, int) and part < len(value.items) else value.keys.get(str(part))
        if inner is None:
            break
        value = inner
    return value.line
