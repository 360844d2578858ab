"""What the steps of a workflow take from: its context, and the results of upstream steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stepwell.model import codec
from stepwell.model.states import FAILED, State
from stepwell.store import Transaction
from stepwell.store.engine import inputs
from stepwell.store.engine.inputs import Element, UpstreamStep
from stepwell.workflow.live.root_failures import root_failures
from stepwell.workflow.template import CONTEXT, Path
from stepwell.workflow.values import value_at


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an upstream step, or an element of a map, ended: as plain data."""

    state: State
    result: Any = None
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {"state": self.state.value, "result": self.result, "error": self.error}


@dataclass(frozen=True, slots=True)
class Sources:
    """What one step can take from."""

    context: Any = None
    steps: Mapping[str, Outcome] = field(default_factory=dict)
    elements: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)  # of upstream maps

    def state_of(self, step: str) -> State | None:
        found = self.steps.get(step)
        return None if found is None else found.state

    def value(self, path: Path) -> Any:
        """The value at a path; None if it is missing, or if the upstream step did not complete."""
        if path.root == CONTEXT:
            return value_at(self.context, path.keys)
        if self.state_of(path.root) is not State.COMPLETED:
            return None
        if path.root in self.elements:
            results = [each.result for each in self.elements[path.root] if each.state is State.COMPLETED]
            return value_at(results, path.keys)
        return value_at(self.steps[path.root].result, path.keys)


def load_sources(
    tx: Transaction, steps: Mapping[int, str], needed: Mapping[int, Collection[str]]
) -> dict[int, Sources]:
    """The sources of each of these steps (by id, with its workflow).

    `needed` are the upstream steps whose values it takes: the elements of a map are read only for those.
    """
    upstream: dict[int, list[UpstreamStep]] = {}
    for row in inputs.upstream_steps(tx, ids=sorted(steps)):
        upstream.setdefault(row.step_id, []).append(row)
    blocks = {
        row.child_block_uuid
        for step_id, rows in upstream.items()
        for row in rows
        if row.kind == "map" and row.template in needed[step_id] and row.child_block_uuid is not None
    }
    elements: dict[str, list[Outcome]] = {block: [] for block in blocks}
    for element in inputs.elements(tx, blocks=sorted(blocks)) if blocks else ():
        elements[element.block_uuid].append(_outcome(element))
    failures = root_failures(
        tx,
        {
            row.id
            for step_id, rows in upstream.items()
            for row in rows
            if row.state is State.NOT_RUNNABLE and row.template in needed[step_id]
        },
    )
    contexts = {row.id: codec.decode(row.context) for row in inputs.contexts(tx, ids=sorted(set(steps.values())))}
    return {
        step_id: Sources(
            contexts.get(workflow),
            {
                row.template: _outcome(row, failures.get(row.id))
                for row in upstream.get(step_id, ())
                if row.template is not None
            },
            {
                row.template: _elements_of(row, elements)
                for row in upstream.get(step_id, ())
                if row.kind == "map" and row.template is not None and row.template in needed[step_id]
            },
        )
        for step_id, workflow in steps.items()
    }


def _elements_of(row: UpstreamStep, elements: Mapping[str, Sequence[Outcome]]) -> Sequence[Outcome]:
    """A list that the map itself has as its result (it was empty, or completed by hand) comes before its elements."""
    result = codec.decode(row.response) if row.state is State.COMPLETED else None
    if isinstance(result, list):
        return [Outcome(State.COMPLETED, each) for each in result]
    return elements.get(row.child_block_uuid or "", ())


def _outcome(row: UpstreamStep | Element, root_failure: str | None = None) -> Outcome:
    """`root_failure` is why a step could not run."""
    if row.state is State.COMPLETED:
        return Outcome(row.state, codec.decode(row.response))
    return Outcome(row.state, None, root_failure or row.error_message or _reason_of(row))


def _reason_of(row: UpstreamStep | Element) -> str | None:
    """A step that an operator failed or cancelled, or that stopped itself, has no error: its reason says why."""
    return row.reason if row.state in FAILED or row.state is State.CANCELLED else None
