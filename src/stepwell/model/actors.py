"""The actors of changes, as history stores them, and the reasons that operators give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from stepwell.model import codec
from stepwell.model.errors import ActionRefused

OPERATOR: Final = "operator:"
ADOPTION: Final = "adoption"
REAPER: Final = "reaper"
RESCHEDULE: Final = "reschedule"  # the reschedule beat of main processes
SCHEDULER: Final = "scheduler"
SWEEP: Final = "sweep"
MAX_WHY: Final = 500


def worker_actor(worker: str) -> str:
    return f"worker:{worker}"


def tick_actor(tick: int) -> str:
    return f"tick:{tick}"


def is_operator(actor: str | None) -> bool:
    """Whether a person made the change.

    >>> is_operator("operator:alice"), is_operator("reaper"), is_operator(None)
    (True, False, False)
    """
    return actor is not None and actor.startswith(OPERATOR)


def person_of(actor: str | None) -> str:
    """For display: a person by name alone, any other actor as it is stored.

    >>> person_of("operator:alice"), person_of("reaper"), person_of(None)
    ('alice', 'reaper', '')
    """
    return (actor or "").removeprefix(OPERATOR)


def actor_of(who: str) -> str:
    """The actor of a person.

    >>> actor_of("alice")
    'operator:alice'
    """
    if not who or not who.isprintable() or len(who) > 200:
        raise ActionRefused("`who` must be 1 to 200 printable characters: every action is recorded with a name")
    return who if who.startswith(OPERATOR) else f"{OPERATOR}{who}"


def reason_of(why: str | None) -> str:
    """The reason of an action, as the step and its history store it.

    >>> reason_of("customer asked"), reason_of(None)
    ('operator: customer asked', 'operator')
    """
    return f"operator: {storable(why)}" if why else "operator"


def storable(why: str | None) -> str | None:
    """Text from a person, in a form that both databases can store."""
    return codec.clean_text(why, MAX_WHY) if why else None


@dataclass(frozen=True, slots=True)
class By:
    """Who does something by hand, why and when."""

    actor: str
    why: str | None
    now: datetime

    @property
    def reason(self) -> str:
        return reason_of(self.why)


def by_hand(who: str | None, why: str | None, now: Callable[[], datetime]) -> By | None:
    """What a person may do by hand and code may do as well: None if code does it, which is not recorded."""
    if who is None:
        if why is not None:
            raise ActionRefused("`why` is recorded with `who`: say who does it, or omit `why`; nothing changed")
        return None
    return By(actor_of(who), why, now())
