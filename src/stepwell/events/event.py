"""What all events have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Event:
    """Any event; `name` is its name outside of Python."""

    name: ClassVar[str] = "event"
