"""Finding, reading and parsing the file, with the line of every key."""

from __future__ import annotations

import codecs
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from stepwell.service.config.kinds import as_key
from stepwell.service.config.lines import Lines, locate

FILE_NAME: Final = "stepwell.toml"
FILE_VARIABLE: Final = "STEPWELL_CONFIG"

_PLACE_OF_ERROR: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_TWICE: Final = re.compile(r"Cannot (?:overwrite|declare)|Duplicate")
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Unreadable(Exception):
    """The file cannot be used; the message says why, with its name and line."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of the file; empty without a file."""

    name: str = FILE_NAME
    tables: Mapping[str, Any] = field(default_factory=dict)
    lines: Lines = field(default_factory=lambda: Lines({}))

    def where(self, *place: str | int) -> str:
        """The file and the line of a place in it."""
        line = self.lines.of(place)
        return self.name if line is None else f"{self.name}:{line}"


def read_document(path: Path | None, environ: Mapping[str, str]) -> Document:
    """The given file, or `stepwell.toml` in the working directory if it exists."""
    if path is not None:
        return _parse(str(path), _read(path, str(path)))
    if named := environ.get(FILE_VARIABLE):
        return _parse(named, _read(Path(named), f"{FILE_VARIABLE}: {named}"))
    default = Path(FILE_NAME)
    if not default.exists() and not default.is_symlink():
        return Document()
    return _parse(FILE_NAME, _read(default, FILE_NAME))


def _read(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise Unreadable(f"{name}: no such file") from None
    except IsADirectoryError:
        raise Unreadable(f"{name}: is a directory; expected a file") from None
    except OSError as error:
        raise Unreadable(f"{name}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a null byte in the name
        raise Unreadable(f"{name}: not a valid file name: {error}") from None


def _parse(name: str, data: bytes) -> Document:
    if data.startswith(_UTF_16):
        raise Unreadable(f"{name}: encoded in UTF-16; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(
            f"{name}:{line}: byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from None
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise Unreadable(f"{name}: not valid TOML: nested too deeply") from None
    except ValueError as error:
        raise Unreadable(_syntax_error(name, text, str(error))) from None
    return Document(name, tables, locate(text))


def _syntax_error(name: str, text: str, message: str) -> str:
    place = _PLACE_OF_ERROR.search(message)
    if place is None:
        return f"{name}: not valid TOML: {message}"
    reason = message[: place.start()]
    last_line = text.count("\n") + (not text.endswith("\n"))
    line = int(place[1] or last_line)
    if _TWICE.match(reason):
        for twice in locate("\n".join(text.split("\n")[:line])).duplicates:
            *around, key = (as_key(str(part)) for part in twice.place)
            label = f"[{'.'.join(around)}] {key}" if around else key
            return f"{name}:{twice.second}: {label}: defined twice, first on line {twice.first}"
    return (
        f"{name}:{line}: not valid TOML: {reason}{f' (column {place[2]})' if place[2] else ' (at the end of the file)'}"
    )
