"""The catalogue of events, as Markdown for docs/events.md."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Final

import msgspec

from stepwell.events.catalogue import CATALOGUE
from stepwell.events.event import Event
from stepwell.store.engine.workflows import Execution

# Structs that are fields of events.
_PARTS: Final = (Execution,)


def catalogue_tables() -> str:
    """When each event is published, and what it carries."""
    rows = [f"| `{kind.name}` | `{kind.__name__}` | {_when(kind)} |" for kind in CATALOGUE.values()]
    listed = "\n".join(["| name | class | published when |", "|---|---|---|", *rows])
    payloads = [_payload(kind) for kind in CATALOGUE.values() if kind.__base__ is Event]
    return "\n\n".join([listed, *payloads, *(_table(part, _fields_of_struct(part)) for part in _PARTS)])


def _payload(kind: type[Event]) -> str:
    subclasses = [other.__name__ for other in CATALOGUE.values() if other.__base__ is kind]
    return _table(kind, [(field.name, str(field.type)) for field in fields(kind)], subclasses)


def _fields_of_struct(struct: type[msgspec.Struct]) -> list[tuple[str, str]]:
    return [(name, str(inspect.get_annotations(struct)[name])) for name in struct.__struct_fields__]


def _table(kind: type, found: list[tuple[str, str]], subclasses: list[str] | None = None) -> str:
    title = f"### `{kind.__name__}`"
    also = [f"Also: {', '.join(f'`{name}`' for name in subclasses)}.", ""] if subclasses else []
    rows = [f"| `{name}` | `{annotation}` |".replace(" | None", " \\| None") for name, annotation in found]
    return "\n".join([title, "", _paragraphs(kind), "", *also, "| field | type |", "|---|---|", *rows])


def _when(kind: type) -> str:
    return _paragraphs(kind).split("\n\n")[0].replace("\n", " ")


def _paragraphs(kind: type) -> str:
    text = inspect.cleandoc(str(kind.__doc__))
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text)
