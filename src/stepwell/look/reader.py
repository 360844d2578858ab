"""Questions that only read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stepwell.look.filters import COLUMNS, select_steps
from stepwell.model import codec
from stepwell.model.errors import StepNotFound, StepwellError
from stepwell.model.ids import canonical_uuid
from stepwell.model.states import State
from stepwell.model.step import Step, StepRef, Transition
from stepwell.store import Database, Row


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A step with what is below it."""

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
            case str() if which.isdecimal():
                key = int(which)
            case _:
                key = which
        if isinstance(key, int):
            row = self._database.read(lambda tx: tx.row("step_by_id", id=key)) if abs(key) < 2**63 else None
        else:
            uuid = canonical_uuid(key)
            row = None if uuid is None else self._database.read(lambda tx: tx.row("step_by_uuid", uuid=uuid))
        if row is None:
            raise StepNotFound(f"there is no step {key}")
        return Step.from_row(row)

    def steps(self, limit: int = 50, before: int | None = None, **filters: Any) -> list[Step]:
        """The newest steps that match `state`, `group`, `queue`, `action`, `workflow`, `relatable`, …"""
        filters = {name: value for name, value in filters.items() if value is not None}
        if "relatable" in filters:
            kind, of = filters.pop("relatable")
            filters |= {"relatable_type": kind, "relatable_id": str(of)}
        if unknown := filters.keys() - {*COLUMNS, "workflow"}:
            raise StepwellError(f"steps cannot be filtered by {', '.join(sorted(unknown))}")
        sql, parameters = select_steps(self._database.dialect, filters, before, limit)
        return [Step.from_row(row) for row in self._database.read(lambda tx: tx.fetch(sql, parameters))]

    def history(self, which: Step | StepRef | int | str) -> list[Transition]:
        step = self.step(which)
        return [Transition.from_row(row) for row in self._database.read(lambda tx: tx.rows("history", step_id=step.id))]

    def tree(self, which: Step | StepRef | int | str) -> TreeNode:
        """A step with all its descendants, in the order of their blocks."""
        top = self.step(which)
        rows = self._database.read(lambda tx: tx.rows("tree_below", id=top.id))
        below: dict[int, list[Step]] = {}
        for row in rows:
            if row["depth"]:
                below.setdefault(row["parent_step_id"], []).append(Step.from_row(row))
        return _grow(top, below)

    def stats(self) -> dict[str, Any]:
        """Counts by state, by stage of the agenda and by group, and the live workers."""
        now = self._database.now()

        def look(tx: Any) -> dict[str, Any]:
            counted = {row["state"]: row["steps"] for row in tx.rows("counts_by_state")}
            return {
                "states": {str(state): counted.get(str(state), 0) for state in State},
                "agenda": {row["status"]: row["steps"] for row in tx.rows("agenda_by_status")},
                "groups": tx.rows("counts_by_group"),
                "workers": tx.rows("live_workers", now=now),
            }

        return self._database.read(look)

    def workers(self) -> list[Row]:
        """Every worker on record with its queues, its actions and how many steps it runs."""
        now = self._database.now()
        rows, lanes = self._database.read(lambda tx: (tx.rows("all_workers", now=now), tx.rows("lanes_of_workers")))
        served: dict[str, list[Row]] = {}
        for lane in lanes:
            served.setdefault(lane["worker_id"], []).append(lane)
        return [
            row
            | {
                "alive": bool(row["alive"]),
                "queues": list(dict.fromkeys(lane["queue"] for lane in served.get(row["id"], []))),
                "actions": sorted({lane["action"] for lane in served.get(row["id"], [])}),
            }
            for row in rows
        ]

    def logs(self, which: Step | StepRef | int | str) -> list[Row]:
        """What the code of a step had to say, oldest first."""
        step = self.step(which)
        return self._database.read(lambda tx: tx.rows("logs_of_step", step_id=step.id))

    def groups(self) -> list[Row]:
        return self._database.read(lambda tx: tx.rows("all_groups"))

    def ticks(self, group: str | None = None, limit: int = 20) -> list[Row]:
        """The newest ticks that did something, with what each phase changed."""
        if group is None:
            rows = self._database.read(lambda tx: tx.rows("recent_ticks", limit=limit))
        else:
            rows = self._database.read(lambda tx: tx.rows("recent_ticks_of_group", group=group, limit=limit))
        return [row | {"progress": codec.decode(row["progress"])} for row in rows]


def _grow(top: Step, below: dict[int, list[Step]]) -> TreeNode:
    root = TreeNode(top, [])
    stack = [root]
    while stack:
        node = stack.pop()
        children = sorted(below.get(node.step.id, []), key=lambda step: (step.type, step.index or 1, step.id))
        node.children.extend(TreeNode(child, []) for child in children)
        stack.extend(node.children)
    return root
