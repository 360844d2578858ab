"""The step that runs now, as its own code sees it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from stepwell.define.drafts import NewStep
from stepwell.define.outcomes import Fail, Reschedule, Retry, Skip, Stop, When
from stepwell.enqueue.place import names_others
from stepwell.model import codec
from stepwell.model.clock import Clock
from stepwell.model.errors import StepwellError
from stepwell.model.step import StepRef
from stepwell.run.children import NewChildren
from stepwell.run.claimed import ClaimedStep

if TYPE_CHECKING:
    from stepwell.store import Database

MAX_LOG: Final = 8_000
MAX_LEVEL: Final = 100

_running: Final[ContextVar[RunningStep]] = ContextVar("stepwell_running_step")
_at_hand: Final[dict[int, RunningStep]] = {}  # every run of this process, by identity


class LeaseLost(BaseException):
    """Somebody else speaks for the step by now: whatever this run still has to say counts for nothing."""


class Channel(Protocol):
    """What connects a run with whoever supervises it. The first two answer False when the lease is lost."""

    def record(self, stage: str, response: str, children: list[dict[str, Any]]) -> bool:
        """The end of compute, with all that it brought; durable when this returns."""

    def checkpoint(self, data: str) -> bool:
        """What the next attempt is to find; durable when this returns."""

    def progress(self, done: float, total: float | None) -> None: ...

    def log(self, level: str, message: str) -> None: ...

    def cancel_requested(self) -> bool: ...


def current_step() -> RunningStep:
    """The step that the calling code runs for."""
    step = running_step()
    if step is None:
        raise StepwellError("current_step() is for code that runs as a step")
    return step


def running_step() -> RunningStep | None:
    return _running.get(None)


class running:  # noqa: N801 - it is used as a word: `with running(step)`. Not a generator: it stands around every run.
    """While its code runs."""

    __slots__ = ("_step", "_token")

    def __init__(self, step: RunningStep) -> None:
        self._step = step

    def __enter__(self) -> None:
        self._token = _running.set(self._step)
        _at_hand[id(self._step)] = self._step

    def __exit__(self, *error: object) -> None:
        del _at_hand[id(self._step)]
        _running.reset(self._token)


def running_parent_of(drafts: Sequence[NewStep], database: Database) -> RunningStep | None:
    """The run that these, meant for this database, are part of, because they are to stand below its step.

    The thread that asks may be one that the job has started, which does not know for whom it works.
    """
    if not any(map(names_others, drafts)):
        return None
    here = running_step()
    for step in [*([] if here is None else [here]), *_at_hand.values()]:
        if step.is_parent_of(drafts, database):
            return step
    return None


def level_name(level: int | str) -> str:
    """The name of a level, as `logging` knows it.

    >>> level_name("error"), level_name(logging.WARNING), level_name(35)
    ('ERROR', 'WARNING', 'Level 35')
    """
    known = logging.getLevelNamesMapping()
    number = known.get(level.upper(), known.get(level)) if isinstance(level, str) else level
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError(
            f"log(level={level!r}): there is no such level, and nothing was logged; "
            f"say a number, or one of {', '.join(known)}"
        )
    return codec.clean_text(logging.getLevelName(number), MAX_LEVEL)


class RunningStep(StepRef):
    """The facts of the step at the moment of its claim, and what its code can do from inside."""

    __slots__ = (
        "_checkpoint",
        "_children",
        "_clock",
        "_facts",
        "_line",
        "_started",
        "arguments",
        "database",
        "reached",
        "recorded",
        "response",
    )  # fmt: skip
    __setattr__ = object.__setattr__  # a reference is frozen; a run is not

    def __init__(self, facts: ClaimedStep, line: Channel, clock: Clock) -> None:
        super().__init__(facts.id, facts.uuid)
        self._facts = facts
        self._line = line
        self._clock = clock
        self._started = clock.monotonic()
        self._children: NewChildren | None = None  # most have none
        self._checkpoint = facts.checkpoint
        self.database: Database | None = None  # in which it stands: said by whoever runs it
        self.reached: str | None = facts.stage  # where the next attempt would begin
        self.recorded: str | None = facts.response  # what an earlier attempt, or this one, has stored
        self.arguments: Any = {}
        # The result: what compute returned, unless it returned None. Later stages find it here, and may change it.
        self.response: Any = codec.decode(self.recorded)

    # what it is -----------------------------------------------------------------------------------------

    @property
    def action(self) -> str:
        return self._facts.action

    @property
    def label(self) -> str | None:
        return self._facts.label

    @property
    def workflow_id(self) -> str:
        return self._facts.workflow_id

    @property
    def parent_step_id(self) -> int | None:
        return self._facts.parent_step_id

    @property
    def index(self) -> int:
        return self._facts.index

    @property
    def queue(self) -> str:
        return self._facts.queue

    @property
    def group(self) -> str:
        return self._facts.group

    @property
    def priority(self) -> str:
        return self._facts.priority

    @property
    def relatable(self) -> tuple[str, str] | None:
        kind, of = self._facts.relatable_type, self._facts.relatable_id
        return None if kind is None or of is None else (kind, of)

    @property
    def attempts(self) -> int:
        """How often it was claimed, this time included."""
        return self._facts.attempts

    @property
    def retries(self) -> int:
        """How many retries are spent; `max_retries` is how many there are."""
        return self._facts.retries

    @property
    def max_retries(self) -> int:
        return self._facts.max_retries

    @property
    def double_checks(self) -> int:
        return self._facts.double_checks

    @property
    def stage(self) -> str | None:
        """Where this attempt begins, if an earlier one has done `compute`."""
        return self._facts.stage

    @property
    def timeout(self) -> float:
        return self._facts.timeout

    @property
    def cooldown(self) -> float:
        return self._facts.cooldown

    @property
    def has_children(self) -> bool:
        return bool(self._facts.has_children)

    @property
    def ref(self) -> StepRef:
        return StepRef(self.id, self.uuid)

    # what it may ask --------------------------------------------------------------------------------------

    @property
    def timeout_reached(self) -> bool:
        """Time to come to an end: what is not done after the cooldown is cut off."""
        return self.timeout > 0 and self._clock.monotonic() - self._started >= self.timeout

    @property
    def cancel_requested(self) -> bool:
        """The step was cancelled, skipped or failed from outside; its result will not count."""
        return self._line.cancel_requested()

    @property
    def checkpointed(self) -> Any:
        """What `checkpoint` kept last, in this attempt or an earlier one; None at first."""
        return codec.decode(self._checkpoint)

    # what it may say --------------------------------------------------------------------------------------

    def checkpoint(self, data: Any) -> None:
        """Keep data for the next attempt, should there be one; it is safe when this returns."""
        text = codec.encode(data, "checkpoint")
        if not self._line.checkpoint(text):
            raise LeaseLost
        self._checkpoint = text

    def progress(self, done: float, total: float | None = None) -> None:
        """Show how far it is."""
        if not all(map(math.isfinite, (done, total or 0.0))):
            raise ValueError(f"progress({done!r}, {total!r}): not numbers that can be shown")
        self._line.progress(float(done), None if total is None else float(total))

    def log(self, message: object, *, level: int | str = logging.INFO) -> None:
        """Leave a line in the step's own log; the level is one of `logging`, by its number or its name."""
        self._line.log(level_name(level), codec.clean_text(str(message), MAX_LOG))

    def retry(
        self, message: str | When = "retry", *, in_: float | timedelta | None = None, at: datetime | None = None
    ) -> NoReturn:
        """End this run and try again: spends a retry. `retry(60)` is `retry(in_=60)`."""
        raise Retry(message, in_=in_, at=at)

    def reschedule(
        self, message: str | When = "reschedule", *, in_: float | timedelta | None = None, at: datetime | None = None
    ) -> NoReturn:
        """End this run and come back later: throttled, spends nothing. `reschedule(60)` is `reschedule(in_=60)`."""
        raise Reschedule(message, in_=in_, at=at)

    def stop(self, reason: str = "") -> NoReturn:
        """End as Stopped."""
        raise Stop(reason)

    def skip(self, reason: str = "") -> NoReturn:
        """End as Skipped."""
        raise Skip(reason)

    def fail(self, error: str | BaseException = "failed") -> NoReturn:
        """End as Failed, without a retry."""
        raise Fail(error)

    # children -----------------------------------------------------------------------------------------------

    def _new_children(self) -> NewChildren:
        if self._children is None:
            self._children = NewChildren(self.ref, self._facts.child_block_uuid)
        return self._children

    def children(self, *steps: NewStep | Iterable[NewStep]) -> list[StepRef]:
        """Create a child block: one argument after the other; those of a list side by side.

        `step.children(fetch.draft("a"), [check.draft(1), check.draft(2)], report.draft())`. They are written with the
        end of `compute` (once, whatever dies) and begin when the own code is done.
        """
        return self._new_children().add_block(steps)

    def is_parent_of(self, drafts: Sequence[NewStep], database: Database) -> bool:
        """Whether any of these, meant for this database, is to stand below this step: they are part of its result."""
        by_number = any(draft.parent == self.id for draft in drafts) and self._stands_in(database)
        family = self._new_children()
        return any(family.claims(draft, by_number=by_number) for draft in drafts)

    def _stands_in(self, database: Database) -> bool:
        """A program may have opened its database twice, or another one that has a step of this number."""
        if database is self.database:
            return True
        namesake = database.read(lambda tx: tx.row("step_by_id", id=self.id))
        return namesake is not None and namesake["uuid"] == self.uuid

    def keep(self, drafts: Sequence[NewStep]) -> list[StepRef]:
        """Hold new steps until the end of compute."""
        return self._new_children().add(drafts)

    def keeps(self, uuid: str) -> bool:
        """Whether this is one of the steps that are held: it cannot run before this one has ended."""
        return self._children is not None and self._children.holds(uuid)

    def take_children(self) -> list[dict[str, Any]]:
        """What was kept since the last call."""
        return [] if self._children is None else self._children.take()

    def record(self, stage: str, response: str) -> None:
        """The end of compute, before the stages that come after it."""
        if not self._line.record(stage, response, self.take_children()):
            raise LeaseLost
        self.recorded = response
        self.reached = stage
