"""A running step, as its own code sees it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

from stepwell.define.drafts import NewStep
from stepwell.define.outcomes import Fail, Reschedule, Retry, Skip, Stop, When
from stepwell.model import codec
from stepwell.model.claimed import ClaimedStep
from stepwell.model.clock import Clock
from stepwell.model.errors import StepwellError
from stepwell.model.features import SCHEDULE, WORKFLOW
from stepwell.model.step import StepRef
from stepwell.run.children import NewChildren
from stepwell.run.facts import StepFacts
from stepwell.run.results import Results, as_results
from stepwell.run.scheduled_run import ScheduledRun, read_scheduled_run
from stepwell.run.supervision import Channel, LeaseLost, level_name
from stepwell.run.workflow_request import WorkflowRequest, read_request
from stepwell.store.engine import reading

if TYPE_CHECKING:
    from stepwell.run.current import RunningSteps
    from stepwell.store import Database

MAX_LOG: Final = 8_000


class RunningStep(StepFacts):
    """The step as it was claimed, and what its code can do while it runs."""

    __slots__ = (
        "_channel",
        "_checkpoint",
        "_children",
        "_clock",
        "_schedule",
        "_started",
        "_workflow",
        "arguments",
        "reached",
        "recorded",
        "response",
        "running_steps",
    )  # fmt: skip

    def __init__(self, facts: ClaimedStep, channel: Channel, clock: Clock) -> None:
        super().__init__(facts)
        self._channel = channel
        self._clock = clock
        self._started = clock.monotonic()
        self._children: NewChildren | None = None  # most have none
        self._checkpoint = facts.checkpoint
        self._workflow: WorkflowRequest | None = None  # read when it is asked for
        self._schedule: ScheduledRun | None = None  # read when it is asked for
        self.running_steps: RunningSteps | None = None  # of the app that runs it; set when the run starts
        self.reached: str | None = facts.stage  # where the next attempt would start
        self.recorded: str | None = facts.response  # the result stored by an earlier attempt, or by this one
        self.arguments: Any = {}
        # The result: what compute returned, unless it returned None. Later stages can read and change it.
        self.response: Any = codec.decode(self.recorded)

    # queries ----------------------------------------------------------------------------------------------

    @property
    def timeout_reached(self) -> bool:
        """The timeout has passed: end the work now. A run that continues after the cooldown is killed."""
        return self.timeout > 0 and self._clock.monotonic() - self._started >= self.timeout

    @property
    def is_overdue(self) -> bool:
        """The cooldown after the timeout has passed as well: a worker has ended the run by now."""
        return self.timeout > 0 and self._clock.monotonic() - self._started > self.timeout + self.cooldown

    @property
    def cancel_requested(self) -> bool:
        """The step was cancelled, skipped or failed from outside; its result will be ignored."""
        return self._channel.cancel_requested()

    @property
    def checkpointed(self) -> Any:
        """The data of the last `checkpoint`, from this attempt or an earlier one; None if there was none."""
        return codec.decode(self._checkpoint)

    def results(self, of: StepRef | int | None = None) -> Results:
        """What the steps before this one ended with, read now: dependencies, and lower indexes of its block.

        For an exception handler these are the default steps of its block: `results().failed` are the reasons why it
        runs. `results(of=step)` are the children of one of these steps, or of any other.
        """
        if self.running_steps is None:
            raise StepwellError(f"step {self.id} has not started: only a running step can read results")
        number = of.id if isinstance(of, StepRef) else of
        return as_results(self._channel.related(number), self.running_steps.jobs)

    @property
    def workflow(self) -> WorkflowRequest | None:
        """The request that started its declared workflow (context, initiator, reason, tags, …); None without one.

        Read from the database by the first use.
        """
        if self._workflow is None and self._facts.belongs_to == WORKFLOW and self.running_steps is not None:
            self._workflow = read_request(self.running_steps.database, self.workflow_id)
        return self._workflow

    @property
    def schedule(self) -> ScheduledRun | None:
        """The schedule that started this step or its workflow: its name, the slot, the previous success; or None.

        Read from the database by the first use.
        """
        if self._schedule is None and self._facts.belongs_to in (SCHEDULE, WORKFLOW) and self.running_steps is not None:
            self._schedule = read_scheduled_run(self.running_steps.database, self.id, self.workflow_id)
        return self._schedule

    # commands ---------------------------------------------------------------------------------------------

    def checkpoint(self, data: Any) -> None:
        """Store data for the next attempt, if there is one; it is durable when this returns."""
        text = codec.encode(data, "checkpoint")
        if not self._channel.checkpoint(text):
            raise LeaseLost
        self._checkpoint = text

    def progress(self, done: float, total: float | None = None) -> None:
        """Report progress."""
        if not all(map(math.isfinite, (done, total or 0.0))):
            raise ValueError(f"progress({done!r}, {total!r}): expected finite numbers")
        self._channel.progress(float(done), None if total is None else float(total))

    def log(self, message: object, *, level: int | str = logging.INFO) -> None:
        """Add a line to the step's log; `level` is a level of `logging`, by number or by name."""
        self._channel.log(level_name(level), codec.clean_text(str(message), MAX_LOG))

    def retry(
        self, message: str | When = "retry", *, in_: float | timedelta | None = None, at: datetime | None = None
    ) -> NoReturn:
        """End this run and retry the step: spends a retry. `retry(60)` is `retry(in_=60)`."""
        raise Retry(message, in_=in_, at=at)

    def reschedule(
        self, message: str | When = "reschedule", *, in_: float | timedelta | None = None, at: datetime | None = None
    ) -> NoReturn:
        """End this run and run again later: throttled, spends nothing. `reschedule(60)` is `reschedule(in_=60)`."""
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

    # its children -----------------------------------------------------------------------------------------

    def children(self, *steps: NewStep | Iterable[NewStep]) -> list[StepRef]:
        """Create a child block: arguments run one after another; the steps of a list run in parallel.

        `step.children(fetch.draft("a"), [check.draft(1), check.draft(2)], report.draft())`. They are written exactly
        once, with the end of `compute`, and start when the own code is done.
        """
        return self._new_children().add_block(steps)

    def is_parent_of(self, drafts: Sequence[NewStep], database: Database) -> bool:
        """Whether any of these drafts for this database belongs below this step: then they are part of its result."""
        by_number = any(draft.parent == self.id for draft in drafts) and self._is_in(database)
        children = self._new_children()
        return any(children.includes(draft, by_number=by_number) for draft in drafts)

    def _is_in(self, database: Database) -> bool:
        """A program may have opened its database twice, or a second one that also has a step with this id."""
        if self.running_steps is not None and database is self.running_steps.database:
            return True
        namesake = database.read(lambda tx: reading.step_by_id(tx, id=self.id))
        return namesake is not None and namesake.uuid == self.uuid

    def add_children(self, drafts: Sequence[NewStep]) -> list[StepRef]:
        """Buffer new steps until the end of compute."""
        return self._new_children().add(drafts)

    def has_unwritten_child(self, uuid: str) -> bool:
        """Whether this is a buffered child: it cannot run before this step has ended."""
        return self._children is not None and self._children.has_unwritten(uuid)

    def take_children(self) -> list[dict[str, Any]]:
        """The children added since the last call."""
        return [] if self._children is None else self._children.take()

    def _new_children(self) -> NewChildren:
        if self._children is None:
            if self.running_steps is None:
                raise StepwellError(f"step {self.id} has not started: only a running step can create children")
            self._children = NewChildren(self.ref, self._facts.child_block_uuid, self.running_steps.uuids)
        return self._children

    # for the lifecycle ------------------------------------------------------------------------------------

    def record(self, stage: str, response: str) -> None:
        """Store the end of compute, before the later stages run."""
        if not self._channel.record(stage, response, self.take_children()):
            raise LeaseLost
        self.recorded = response
        self.reached = stage
