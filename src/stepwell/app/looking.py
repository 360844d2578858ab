"""What an app tells about its steps: the methods of `Stepwell` that only read, and those that check."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stepwell.model.step import Step, StepRef, Transition
from stepwell.store import Database

if TYPE_CHECKING:
    from stepwell.dispatch.sweep import Finding
    from stepwell.look.explain import Explanation
    from stepwell.look.overview import Stats, WorkerInfo
    from stepwell.look.past import WorkflowThen
    from stepwell.look.reader import Reader, TreeNode
    from stepwell.operate.invariants import Violation
    from stepwell.store.engine.past import StepThen
    from stepwell.store.engine.reading import GroupRow, LogLine, TickRow

AnyStep = Step | StepRef | int | str


class Looking:
    """A part of `Stepwell`."""

    @property
    @abstractmethod
    def database(self) -> Database: ...

    @property
    @abstractmethod
    def reader(self) -> Reader: ...

    def step(self, which: AnyStep) -> Step:
        """One step as it is now."""
        return self.reader.step(which)

    def steps(self, *, limit: int = 50, before: int | None = None, **filters: Any) -> list[Step]:
        """The newest steps that match."""
        return self.reader.steps(limit, before, **filters)

    def is_live(self, relatable: tuple[str, str | int], actions: Collection[str] | None = None) -> bool:
        """Whether a workflow with a step of these actions (or of any) about this object has not ended yet."""
        return self.reader.is_live(relatable, actions)

    def history(self, which: AnyStep) -> list[Transition]:
        """Every change of state of a step."""
        return self.reader.history(which)

    def step_at(self, which: AnyStep, when: datetime) -> StepThen | None:
        """A step as it was at an earlier moment; None before it was created."""
        from stepwell.look import past

        return past.step_at(self.database, self.step(which).id, when)

    def workflow_at(self, workflow_id: str, when: datetime | None = None) -> WorkflowThen:
        """A workflow, declared or not, and all its steps as they were at an earlier moment.

        Without `when`, as they are: `at` of the result is that moment, by the clock that stamps the history.
        """
        from stepwell.look import past

        return past.workflow_at(self.database, workflow_id, when)

    def tree(self, which: AnyStep) -> TreeNode:
        """A step with its descendants."""
        return self.reader.tree(which)

    def logs(self, which: AnyStep) -> list[LogLine]:
        """What the code of a step logged (`step.log`)."""
        return self.reader.logs(which)

    def explain(self, which: AnyStep) -> Explanation:
        """Why a step is not running."""
        from stepwell.look.explain import SOURCES, explain
        from stepwell.processes.explain import rescheduling

        return explain(self.database, self.step(which), [*SOURCES, rescheduling])

    def stats(self) -> Stats:
        """Step counts by state, by readiness and by group."""
        return self.reader.stats()

    def workers(self) -> list[WorkerInfo]:
        """The workers, the lanes they serve and how many steps they run."""
        return self.reader.workers()

    def groups(self) -> list[GroupRow]:
        """The groups with their locks."""
        return self.reader.groups()

    def ticks(self, group: str | None = None, limit: int = 20) -> list[TickRow]:
        """The tick log."""
        return self.reader.ticks(group, limit)

    # check --------------------------------------------------------------------------------------------

    def check_invariants(self) -> list[Violation]:
        """Every violated invariant of this database."""
        from stepwell.operate.invariants import check_invariants

        return check_invariants(self.database)

    def sweep(self) -> list[Finding]:
        """Check marks and agenda; repairs what is wrong and returns what it repaired."""
        from stepwell.dispatch.sweep import sweep

        return sweep(self.database)

    def fold(self) -> None:
        """Fold the counters and find the causes of cascades now, as a dispatcher does every two seconds."""
        from stepwell.operate.causes import resolve_causes
        from stepwell.operate.fold import fold_all

        while resolve_causes(self.database):
            pass
        fold_all(self.database)

    def recount(self) -> None:
        """Make the counters anew from the steps."""
        from stepwell.operate.fold import recount

        recount(self.database)
