"""The channel that connects a run with its worker."""

from __future__ import annotations

import logging
from typing import Any, Final, Protocol

from stepwell.model import codec
from stepwell.store.engine.results import RelatedStep

MAX_LEVEL: Final = 100


class LeaseLost(BaseException):
    """This run no longer holds the lease: the step was claimed again, or ended by an operator."""


class Channel(Protocol):
    """What a run sends to its worker and asks of it. `record` and `checkpoint` return False if the lease is lost."""

    def record(self, stage: str, response: str, children: list[dict[str, Any]]) -> bool:
        """The end of compute, with its result and its children; durable when this returns."""

    def checkpoint(self, data: str) -> bool:
        """Data for the next attempt; durable when this returns."""

    def progress(self, done: float, total: float | None) -> None: ...

    def log(self, level: str, message: str) -> None: ...

    def cancel_requested(self) -> bool: ...

    def related(self, of: int | None) -> list[RelatedStep]:
        """The steps before this one or, with an id, the children of that step."""


def level_name(level: int | str) -> str:
    """The name of a level, as `logging` knows it.

    >>> level_name("error"), level_name(logging.WARNING), level_name(35)
    ('ERROR', 'WARNING', 'Level 35')
    """
    known = logging.getLevelNamesMapping()
    number = known.get(level.upper(), known.get(level)) if isinstance(level, str) else level
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError(
            f"log(level={level!r}): unknown level; nothing was logged; pass a number or one of {', '.join(known)}"
        )
    return codec.clean_text(logging.getLevelName(number), MAX_LEVEL)
