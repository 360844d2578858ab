"""Read-only queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from msgspec.structs import asdict

from stepwell.look.archived import ArchivedStep, archived_step
from stepwell.look.overview import JobInfo, Stats, WorkerInfo
from stepwell.look.summing import by_group, totals_of
from stepwell.model.errors import StepArchived, StepNotFound, StepwellError
from stepwell.model.ids import LARGEST_ID, canonical_uuid, uuids_like
from stepwell.model.step import Step, StepRef, Transition
from stepwell.model.suggest import refuse_unknown
from stepwell.store import Database, Transaction
from stepwell.store.engine import actions, counters, creation, explaining, reading, reaping, ticks
from stepwell.store.filters import check_page, check_step_filters, listed, relatable_of
from stepwell.store.missing import missing_step

# Steps of a workflow that are read for its tree: the largest map of the tests has 10,000 elements.
MOST_STEPS: Final = 100_000


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A step with its children."""

    step: Step
    children: list[TreeNode]


class Reader:
    def __init__(self, database: Database) -> None:
        self._database = database

    def step(self, which: Step | StepRef | int | str) -> Step:
        """One step, by its id, uuid or reference."""
        match which:
            case Step() | StepRef():
                key: int | str = which.id or which.uuid  # a child that was not written yet has no id
            case str() if which.isdecimal() and len(which) < 20:  # more digits are not an id, but may be a uuid
                key = int(which)
            case _:
                key = which
        if isinstance(key, int) and abs(key) <= LARGEST_ID:
            return self._database.read(partial(_step_by_id, id=key))
        if isinstance(key, str) and (uuid := canonical_uuid(key)) is not None:
            return self._database.read(partial(_step_by_uuid, uuid=uuid))
        raise StepNotFound(f"step {key} does not exist")

    def ids_like(self, beginning: str) -> list[int]:
        """The ids of steps whose uuid begins with this, at most three."""
        between = uuids_like(beginning)
        if between is None:
            return []
        first, last = between
        return self._database.read(lambda tx: reading.step_ids_between(tx, first=first, last=last))

    def any_step(self, which: Step | StepRef | int | str) -> Step:
        """The same, also from the archive."""
        try:
            return self.step(which)
        except StepArchived as error:
            return error.step

    def archived(self, which: Step | StepRef | int | str) -> ArchivedStep | None:
        """A step of the archive with its history and its log; None if it is not there."""
        try:
            self.step(which)
        except StepArchived as error:
            found = error.step
            return self._database.read(lambda tx: archived_step(tx, found))
        except StepNotFound:
            pass
        return None

    def steps(self, limit: int = 50, before: int | None = None, **filters: Any) -> list[Step]:
        """The newest steps that match `state`, `group`, `queue`, `action`, `workflow`, `relatable`, …"""
        check_page(limit, before)
        checked = check_step_filters(filters)
        found = self._database.read(lambda tx: reading.newest_steps(tx, filters=checked, before=before, limit=limit))
        if not found:  # a typo must not look like an empty queue
            self.refuse_unknown_names(group=filters.get("group"), queue=filters.get("queue"))
        return found

    def refuse_unknown_names(self, *, group: Any = None, queue: Any = None) -> None:
        """Raise if there is no such group or queue."""
        if group is not None:
            refuse_unknown("steps", listed(group), [row.group for row in self.groups()], "group")
        if queue is not None:
            refuse_unknown("steps", listed(queue), self._database.read(creation.queue_names), "queue")

    def is_live(self, relatable: tuple[str, str | int], actions: Collection[str] | None = None) -> bool:
        """Whether a workflow that has a step of these actions (or of any) about this object has not ended."""
        kind, of = relatable_of(relatable)
        if isinstance(actions, str):
            raise StepwellError(f"is_live: actions is {actions!r}; pass a list, actions=[{actions!r}]")
        return self._database.read(
            lambda tx: reading.is_live(
                tx,
                relatable_type=kind,
                relatable_id=of,
                any_action=actions is None,
                actions=[] if actions is None else list(actions),
            )
        )

    def history(self, which: Step | StepRef | int | str) -> list[Transition]:
        step = self.step(which)
        return self._database.read(lambda tx: reading.history(tx, step_id=step.id))

    def histories(self, ids: Sequence[int]) -> dict[int, list[Transition]]:
        """The histories of many steps."""
        found: dict[int, list[Transition]] = {}
        for change in self._database.read(lambda tx: reading.histories(tx, ids=ids)) if ids else ():
            found.setdefault(change.step_id, []).append(change)
        return found

    def newest_change(self) -> int:
        """The id of the newest transition of any step; 0 if there is none."""
        return self._database.read(reading.newest_change)

    def changes_after(self, id: int, limit: int) -> list[reading.StepChange]:
        """The transitions of all steps with a higher id, oldest first."""
        return self._database.read(lambda tx: reading.changes_after(tx, after=id, limit=limit))

    def pause_of(self, workflow_id: str) -> explaining.WorkflowPause | None:
        """Who paused a workflow, and why; None if it is not paused."""
        found = self._database.read(lambda tx: explaining.paused_workflows(tx, workflows=[workflow_id]))
        return found[0] if found else None

    def jobs(self) -> list[JobInfo]:
        """The jobs that workers have recorded: settings, former names, and how many live workers serve each."""
        rows = self._database.read(actions.all_actions)
        serving = Counter(action for worker in self.workers() if worker.alive for action in worker.actions)
        return [
            JobInfo(
                **asdict(row),
                aliases=[each.name for each in rows if each.alias_of == row.name],
                workers=serving[row.name],
            )
            for row in rows
            if row.alias_of is None
        ]

    def tree(self, which: Step | StepRef | int | str) -> TreeNode:
        """A step with all its descendants, in the order of their blocks."""
        top = self.step(which)
        below: dict[int, list[Step]] = {}
        for step in self._database.read(lambda tx: reading.tree_below(tx, id=top.id)):
            if step.id != top.id and step.parent_step_id is not None:
                below.setdefault(step.parent_step_id, []).append(step)
        return _build_tree(top, below)

    def workflow_trees(self, workflow_id: str) -> list[TreeNode]:
        """The steps of a declared workflow in the order of their creation, each with its descendants."""
        filters = check_step_filters({"workflow": workflow_id})
        steps = self._database.read(lambda tx: reading.newest_steps(tx, filters=filters, before=None, limit=MOST_STEPS))
        below: dict[int, list[Step]] = {}
        for step in reversed(steps):
            below.setdefault(step.parent_step_id or 0, []).append(step)
        return [_build_tree(top, below) for top in below.get(0, [])]

    def edges_to(self, ids: Sequence[int], most: int = MOST_STEPS) -> dict[int, list[int]]:
        """What each of these steps depends on by DAG edges, at most this many."""
        found: dict[int, list[int]] = {}
        for edge in self._database.read(lambda tx: explaining.dependencies_of_steps(tx, ids=ids, most=most)):
            found.setdefault(edge.step_id, []).append(edge.depends_on_id)
        return found

    def stats(self) -> Stats:
        """Counts by state, by agenda status and by group, and the live workers."""
        now = self._database.now()

        def look(tx: Transaction) -> Stats:
            rows = counters.counters(tx)
            totals = totals_of(rows)
            running = {row.group: row.steps for row in counters.running_by_group(tx)}
            return Stats(
                states=totals.states,
                child_pending=totals.child_pending,
                child_running=totals.child_running,
                throttled=totals.throttled,
                agenda={row.status: row.steps for row in reading.agenda_by_status(tx)},
                groups=by_group(rows, running, reading.all_groups(tx)),
                workers=reading.live_workers(tx, now=now),
            )

        return self._database.read(look)

    def workers(self) -> list[WorkerInfo]:
        """Every worker with a row: its queues, its actions and how many steps it runs."""
        now = self._database.now()
        workers, lanes = self._database.read(
            lambda tx: (reading.all_workers(tx, now=now), reading.lanes_of_workers(tx))
        )
        served: dict[str, list[reading.Lane]] = {}
        for lane in lanes:
            served.setdefault(lane.worker_id, []).append(lane)
        return [
            WorkerInfo(
                **asdict(worker),
                queues=list(dict.fromkeys(lane.queue for lane in served.get(worker.id, []))),
                actions=sorted({lane.action for lane in served.get(worker.id, [])}),
                groups=sorted({lane.group for lane in served.get(worker.id, []) if lane.group}),
            )
            for worker in workers
        ]

    def logs(self, which: Step | StepRef | int | str) -> list[reading.LogLine]:
        """The log lines of a step, oldest first."""
        step = self.step(which)
        return self._database.read(lambda tx: reading.logs_of_step(tx, step_id=step.id))

    def groups(self) -> list[reading.GroupRow]:
        return self._database.read(reading.all_groups)

    def ticks(self, group: str | None = None, limit: int = 20, before: int | None = None) -> list[reading.TickRow]:
        """The newest ticks (with an id below `before`) with changes or errors, and what each phase changed."""
        check_page(limit, before)
        at = LARGEST_ID if before is None else before

        def look(tx: Transaction) -> list[reading.TickRow]:
            if group is None:
                return reading.recent_ticks(tx, before=at, limit=limit)
            return reading.recent_ticks_of_group(tx, group=group, before=at, limit=limit)

        found = self._database.read(look)
        if group is not None and not found:
            self.refuse_unknown_names(group=group)
        return found

    def dependencies(self, which: Step | StepRef | int | str) -> list[Step]:
        """The steps that a step depends on by DAG edges."""
        step = self.step(which)
        return self._database.read(lambda tx: reading.dependencies_of(tx, id=step.id))

    def unserved_lanes(self) -> list[reading.LaneCount]:
        """Lanes with steps that could run now if a live worker served them."""
        now = self._database.now()
        return self._database.read(lambda tx: reading.unserved_lanes(tx, now=now))

    def next_runnable(self) -> dict[str, Step]:
        """For each group, the first step that a free slot could claim now."""
        now = self._database.now()

        def look(tx: Transaction) -> dict[str, Step]:
            ticks.keep_to_indexes(tx)
            heads = reaping.next_runnable_by_group(tx, now=now)
            return {head.group: _step_by_id(tx, head.step_id) for head in heads}

        return self._database.read(look)

    def set_aside(self, limit: int = 1_000) -> list[reading.SetAside]:
        """The newest steps that ended because of what their row holds, so that they block no others."""

        def look(tx: Transaction) -> list[reading.SetAside]:
            ticks.keep_to_indexes(tx)
            return reading.steps_set_aside(tx, limit=limit)

        return self._database.read(look)

    def database_version(self) -> str:
        return self._database.read(reading.database_version)


def _step_by_id(tx: Transaction, id: int) -> Step:
    step = reading.step_by_id(tx, id=id)
    if step is None:
        raise missing_step(tx, id=id)
    return step


def _step_by_uuid(tx: Transaction, uuid: str) -> Step:
    step = reading.step_by_uuid(tx, uuid=uuid)
    if step is None:
        raise missing_step(tx, uuid=uuid)
    return step


def _build_tree(top: Step, below: dict[int, list[Step]]) -> TreeNode:
    root = TreeNode(top, [])
    stack = [root]
    while stack:
        node = stack.pop()
        children = sorted(below.get(node.step.id, []), key=lambda step: (step.type, step.index or 1, step.id))
        node.children.extend(TreeNode(child, []) for child in children)
        stack.extend(node.children)
    return root
