"""Rejecting steps that would wait for each other forever.

The order of events: a step starts after its parent has started, after its DAG dependencies have ended and after all
lower indexes of its block have ended; a parent ends after its children. A cycle among these events is a deadlock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from stepwell.model.errors import InvalidStep
from stepwell.store import Transaction
from stepwell.store.engine import placement as verbs

if TYPE_CHECKING:
    from stepwell.enqueue.place.placement import Placement

Key = Any  # a step's id, or the identity of one that has no id yet


def refuse_cycles(tx: Transaction, placements: Sequence[Placement], joined_blocks: Collection[str]) -> None:
    """Raise `InvalidStep`, naming the steps, if the new steps form a cycle among themselves or with existing ones."""
    graph = _WaitGraph()
    for placement in placements:
        graph.add(
            _key(placement),
            placement.name,
            parent=None if placement.parent is None else _key(placement.parent),
            dependencies=[_key(dependency) for dependency in placement.dependencies],
            level=(placement.block, placement.draft.type, placement.index),
        )
    # No existing step waits for a new one unless that joined an existing parent or an existing block.
    if joined_blocks:
        for workflow in {placement.workflow for placement in placements}:
            _add_existing(tx, workflow, graph)
    graph.refuse_cycles()


def _key(step: Any) -> Key:
    return step.id if isinstance(step, verbs.ExistingStep) else f"new {id(step)}"


def _add_existing(tx: Transaction, workflow: str, graph: _WaitGraph) -> None:
    edges: dict[int, list[int]] = {}
    for edge in verbs.workflow_edges(tx, workflow=workflow):
        edges.setdefault(edge.step_id, []).append(edge.depends_on_id)
    for row in verbs.workflow_graph(tx, workflow=workflow):
        graph.add(
            row.id,
            f"{row.label or row.action} (step {row.id})",
            parent=row.parent_step_id,
            dependencies=edges.get(row.id, []),
            level=(row.block_uuid, row.type, row.index),
        )


class _WaitGraph:
    def __init__(self) -> None:
        self._sorter: TopologicalSorter[tuple[Any, ...]] = TopologicalSorter()
        self._names: dict[Key, str] = {}
        self._levels: dict[tuple[str, str], dict[int, list[Key]]] = {}

    def add(
        self,
        key: Key,
        name: str,
        *,
        parent: Key | None,
        dependencies: Sequence[Key],
        level: tuple[str, str, int],
    ) -> None:
        self._names[key] = name
        block, kind, index = level
        self._levels.setdefault((block, kind), {}).setdefault(index, []).append(key)
        self._sorter.add(("end", key), ("start", key))
        self._sorter.add(("start", key), ("level", *level), *(("end", dependency) for dependency in dependencies))
        if parent is not None:
            self._sorter.add(("start", key), ("start", parent))
            self._sorter.add(("end", parent), ("end", key))

    def refuse_cycles(self) -> None:
        for (block, kind), steps in self._levels.items():
            lower: int | None = None
            for index in sorted(steps):
                if lower is not None:
                    before = (("end", key) for key in steps[lower])
                    self._sorter.add(("level", block, kind, index), ("level", block, kind, lower), *before)
                lower = index
        try:
            self._sorter.prepare()
        except CycleError as error:
            events = error.args[1]
            names = [self._names[event[1]] for event in events if event[0] != "level" and event[1] in self._names]
            cycle = " ← ".join(dict.fromkeys(names))
            raise InvalidStep(f"these steps would wait for each other forever: {cycle}; nothing was written") from error
