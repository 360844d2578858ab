"""A step's history as spans of time: what it waited for, when its own code ran, when it waited for its children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from stepwell.model.states import State
from stepwell.model.step import Transition

# A wait below this is not worth a word: a dispatched step usually waits this long for its worker.
SHORT: Final = timedelta(milliseconds=50)

Kind: TypeAlias = Literal["waits", "delayed", "queued", "runs", "children"]

WORDS: Final[dict[Kind, str]] = {
    "waits": "waits for other steps or a slot",
    "delayed": "waits for its next attempt",
    "queued": "dispatched, waits for a worker",
    "runs": "own code",
    "children": "waits for its children",
}

# The same, shorter.
NAMES: Final[dict[Kind, str]] = {
    "waits": "waits",
    "delayed": "delayed",
    "queued": "dispatched",
    "runs": "attempt",
    "children": "children",
}


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of a step's life; `end` is None while it lasts."""

    kind: Kind
    start: datetime
    end: datetime | None
    attempt: int
    to: State | None = None  # the state in which it ended
    error: str | None = None


def spans_of(history: Sequence[Transition], own_code_done_at: datetime | None = None) -> list[Span]:
    """The spans of one step, oldest first."""
    found: list[Span] = []
    for here, following in zip(history, [*history[1:], None], strict=True):
        if here.to_state.is_terminal:
            continue
        end = None if following is None else following.at
        to = None if following is None else following.to_state
        error = None if following is None else following.error
        kind = _kind(here)
        if kind == "runs" and following is not None and following.to_state is State.RUNNING:
            error = None
        is_last_run = kind == "runs" and not any(
            later.to_state is State.RUNNING for later in history[history.index(here) + 1 :]
        )
        done = own_code_done_at
        if is_last_run and done is not None and done >= here.at and (end is None or done < end):
            if done > here.at:
                found.append(Span("runs", here.at, done, here.attempt))
            found.append(Span("children", done, end, here.attempt, to, error))
        else:
            found.append(Span(kind, here.at, end, here.attempt, to, error))
    return found


def noteworthy(spans: Sequence[Span]) -> list[Span]:
    """Every attempt, and the waits that took time."""
    return [span for span in spans if span.kind == "runs" or span.end is None or span.end - span.start >= SHORT]


def of_attempt(spans: Sequence[Span], attempt: int) -> list[Span]:
    """The run of one attempt, and what it waited for: a wait has the number of the attempt before it."""
    return [span for span in spans if span.attempt + (span.kind not in ("runs", "children")) == attempt]


def _kind(here: Transition) -> Kind:
    if here.to_state is State.RUNNING:
        return "runs"
    if here.to_state is State.DISPATCHED:
        return "queued"
    return "delayed" if here.from_state in (State.RUNNING, State.DISPATCHED) else "waits"
