"""The step that runs now, as its own code sees it."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NoReturn, Protocol
from uuid import UUID

from stepwell import codec
from stepwell.enqueue.draft import NewStep
from stepwell.enqueue.parcel import wrap
from stepwell.ids import uuid7
from stepwell.model.errors import InvalidStep, StepwellError
from stepwell.model.step import Step, StepRef
from stepwell.run.outcomes import Fail, Reschedule, Retry, Skip, Stop

MAX_LOG: Final = 8_000

_running: Final[ContextVar[RunningStep]] = ContextVar("stepwell_running_step")


class LeaseLost(BaseException):
    """Somebody else speaks for the step by now: whatever this run still has to say counts for nothing."""


class Line(Protocol):
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


class RunningStep(StepRef):
    """The facts of the step at the moment of its claim, and what its code can do from inside."""

    __slots__ = (
        "_blocks", "_checkpoint", "_children", "_family", "_last_index", "_line", "_named", "_row", "_started",
        "arguments", "reached", "recorded", "response",
    )  # fmt: skip
    __setattr__ = object.__setattr__  # a reference is frozen; a run is not

    def __init__(self, row: Mapping[str, Any], line: Line) -> None:
        super().__init__(row["id"], row["uuid"])
        self._row = row
        self._line = line
        self._started = time.monotonic()
        self._children: list[NewStep] = []  # created in this run and not yet written
        self._named: dict[int, tuple[NewStep, str]] = {}  # drafts of this run, by identity, with their uuids
        self._family: set[object] = set()  # the uuids of all that this run created below the step
        self._blocks: set[object] = {row["child_block_uuid"]} - {None}
        self._last_index = 0
        self._checkpoint = row["checkpoint"]
        self.reached: str | None = row["stage"]  # where the next attempt would begin
        self.recorded: str | None = row.get("response")  # what an earlier attempt, or this one, has stored
        self.arguments: Any = {}
        # The result: what compute returned, unless it returned None. Later stages find it here, and may change it.
        self.response: Any = codec.decode(self.recorded)

    # what it is -----------------------------------------------------------------------------------------

    @property
    def action(self) -> str:
        return str(self._row["action"])

    @property
    def label(self) -> str | None:
        label: str | None = self._row["label"]
        return label

    @property
    def workflow_id(self) -> str:
        return str(self._row["workflow_id"])

    @property
    def parent_step_id(self) -> int | None:
        parent: int | None = self._row["parent_step_id"]
        return parent

    @property
    def index(self) -> int:
        return int(self._row["index"])

    @property
    def queue(self) -> str:
        return str(self._row["queue"])

    @property
    def group(self) -> str:
        return str(self._row["group"])

    @property
    def priority(self) -> str:
        return str(self._row["priority"])

    @property
    def relatable(self) -> tuple[str, str] | None:
        kind = self._row["relatable_type"]
        return None if kind is None else (kind, self._row["relatable_id"])

    @property
    def attempts(self) -> int:
        """How often it was claimed, this time included."""
        return int(self._row["attempts"])

    @property
    def retries(self) -> int:
        """How many retries are spent; `max_retries` is how many there are."""
        return int(self._row["retries"])

    @property
    def max_retries(self) -> int:
        return int(self._row["max_retries"])

    @property
    def double_checks(self) -> int:
        return int(self._row["double_checks"])

    @property
    def stage(self) -> str | None:
        """Where this attempt begins, if an earlier one has done `compute`."""
        stage: str | None = self._row["stage"]
        return stage

    @property
    def timeout(self) -> float:
        return float(self._row["timeout"])

    @property
    def cooldown(self) -> float:
        return float(self._row["cooldown"])

    @property
    def has_children(self) -> bool:
        return bool(self._row["has_children"])

    @property
    def ref(self) -> StepRef:
        return StepRef(self.id, self.uuid)

    # what it may ask --------------------------------------------------------------------------------------

    @property
    def timeout_reached(self) -> bool:
        """Time to come to an end: what is not done after the cooldown is cut off."""
        return self.timeout > 0 and time.monotonic() - self._started >= self.timeout

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

    def log(self, message: object, *, level: int = logging.INFO) -> None:
        """Leave a line in the step's own log."""
        self._line.log(logging.getLevelName(level), codec.clean_text(str(message), MAX_LOG))

    def retry(self, message: str = "retry", *, in_: float | None = None, at: datetime | None = None) -> NoReturn:
        """End this run and try again: spends a retry."""
        raise Retry(message, in_=in_, at=at)

    def reschedule(self, *, in_: float = 0.0, at: datetime | None = None) -> NoReturn:
        """End this run and come back later: throttled, spends nothing."""
        raise Reschedule(in_=in_, at=at)

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

    def children(self, *steps: NewStep | Sequence[NewStep]) -> list[StepRef]:
        """Create a child block: one argument after the other; those of a list side by side.

        `step.children(fetch.draft("a"), [check.draft(1), check.draft(2)], report.draft())`. They are written with the
        end of `compute` (once, whatever dies) and begin when the own code is done.
        """
        given: list[NewStep] = []
        drafts: list[NewStep] = []
        for place in steps:
            together = [place] if isinstance(place, NewStep) else list(place)
            if any(draft.index is None and draft.type == "default" for draft in together):
                self._last_index += 1
            turn = self._last_index
            for draft in together:
                if draft.parent is not None and _key(draft.parent) not in (self.id, self.uuid):
                    raise InvalidStep(f"{draft.label or draft.action!r} has another parent: create it with app.enqueue")
                index = turn if draft.index is None and draft.type == "default" else draft.index
                drafts.append(replace(draft, parent=self.uuid, index=index))
                if draft.type == "default":
                    self._last_index = max(self._last_index, index or 1)
            given += together
        return self._keep(given, drafts)

    def is_parent_of(self, drafts: Sequence[NewStep]) -> bool:
        """Whether any of these is to stand below this step: then they are part of its result."""
        return any(map(self._is_below, drafts))

    def keep(self, drafts: Sequence[NewStep]) -> list[StepRef]:
        """Hold new steps until the end of compute. Their ids are not known yet (0), their uuids are."""
        return self._keep(drafts, drafts)

    def keeps(self, uuid: str) -> bool:
        """Whether this is one of the steps that are held: it cannot run before this one has ended."""
        return any(draft.uuid == uuid for draft in self._children)

    def _is_below(self, draft: NewStep) -> bool:
        """A child of this step, or tied to one that was created in this run."""
        if draft.block is not None and _canonical(draft.block) in self._blocks:
            return True
        if draft.parent is not None and _key(draft.parent) in (self.id, self.uuid):
            return True
        return any(
            id(step) in self._named or _key(step) in self._family
            for step in (draft.parent, *draft.depends_on)
            if step is not None
        )

    def _keep(self, given: Sequence[NewStep], drafts: Sequence[NewStep]) -> list[StepRef]:
        """`given` are the drafts as the job knows them: other drafts may name them."""
        if len({id(draft) for draft in given}) < len(given):
            raise InvalidStep("the same NewStep stands in the call twice")
        uuids = [uuid7() if draft.uuid is None else str(_canonical(draft.uuid)) for draft in drafts]
        # The draft itself is kept with its uuid, for the id of an object is free again when the object is gone.
        named = self._named | {id(draft): (draft, uuid) for draft, uuid in zip(given, uuids, strict=True)}
        self._children += [
            _by_uuids(replace(draft, uuid=uuid), named) for draft, uuid in zip(drafts, uuids, strict=True)
        ]
        self._named = named
        self._family.update(uuids)
        self._blocks.update(_canonical(draft.child_block) for draft in drafts if draft.child_block is not None)
        return [StepRef(0, uuid) for uuid in uuids]

    def take_children(self) -> list[dict[str, Any]]:
        """What was kept, wrapped for the way; the next call finds only what came later."""
        wrapped = [wrap(draft) for draft in self._children]
        self._children = []
        return wrapped

    def record(self, stage: str, response: str) -> None:
        """The end of compute, before the stages that come after it."""
        if not self._line.record(stage, response, self.take_children()):
            raise LeaseLost
        self.recorded = response
        self.reached = stage


def _by_uuids(draft: NewStep, named: Mapping[int, tuple[NewStep, str]]) -> NewStep:
    """The draft with its references to other new steps as uuids: these can travel."""

    def meant(step: Any) -> Any:
        if not isinstance(step, NewStep):
            return _key(step)
        if id(step) not in named:
            raise InvalidStep(f"{draft.label or draft.action!r} names a new step that was not created in this run")
        return named[id(step)][1]

    parent = None if draft.parent is None else meant(draft.parent)
    return replace(draft, parent=parent, depends_on=tuple(map(meant, draft.depends_on)))


def _key(step: object) -> object:
    """By what a step is named: its id, or its uuid as long as there is none."""
    if isinstance(step, Step | StepRef):
        return step.id or step.uuid
    return _canonical(step) if isinstance(step, str) else step


def _canonical(text: object) -> object:
    """A uuid as it is stored; anything else as it is: it is refused when it is written."""
    try:
        return str(UUID(text))  # type: ignore[arg-type]
    except (ValueError, AttributeError, TypeError):
        return text
