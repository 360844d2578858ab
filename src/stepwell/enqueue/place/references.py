"""Resolving the parent and the dependencies that a draft refers to; existing steps are locked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stepwell.define.drafts import NewStep, StepLike
from stepwell.enqueue.place.placement import Neighbours, Placement, require_uuid
from stepwell.model.errors import InvalidStep
from stepwell.model.ids import LARGEST_ID
from stepwell.model.step import Step, StepRef
from stepwell.store import Transaction
from stepwell.store.engine import placement as placement_verbs
from stepwell.store.engine.placement import ExistingStep


def find_existing(
    tx: Transaction,
    placements: Iterable[Placement],
    new: Mapping[int | str, Placement],
    known: Mapping[int, StepRef],
) -> dict[int | str, ExistingStep]:
    """The existing steps that these drafts refer to, locked; by id and by uuid."""
    ids, uuids = set[int](), set[str]()
    for placement in placements:
        draft = placement.draft
        for step in (draft.parent, *draft.depends_on):
            match known.get(id(step), step):
                case Step() | StepRef() as existing if existing.id:
                    ids.add(existing.id)
                case StepRef() as child if (uuid := child.uuid) not in new:  # a child that had no id yet
                    uuids.add(uuid)
                case int(number) if abs(number) <= LARGEST_ID:
                    ids.add(number)
                case str(text) if (uuid := require_uuid(text, "a step")) not in new:
                    uuids.add(uuid)
    if not ids and not uuids:
        return {}
    found: dict[int | str, ExistingStep] = {}
    for row in placement_verbs.lock_steps(tx, ids=sorted(ids), uuids=sorted(uuids)):
        refuse_unplaced(row)
        found[row.id] = found[row.uuid] = row
    return found


def refuse_unplaced(row: ExistingStep) -> None:
    """A row written by plain SQL has no group until a tick adopts it, so nothing can share its group yet."""
    if row.group is None:
        raise InvalidStep(
            f"step {row.id} was written by plain SQL and is not adopted before the next tick; "
            "nothing was written: connect other steps to it after that"
        )


@dataclass(frozen=True, slots=True)
class References:
    """What the drafts of one call may refer to: each other, and existing steps."""

    new: Mapping[int | str, Placement]
    known: Mapping[int, StepRef]
    existing: Mapping[int | str, ExistingStep]

    def resolve(self, placement: Placement, neighbours: Neighbours) -> None:
        """Replace the references of the draft by placements and rows."""
        draft = placement.draft
        if draft.parent is not None:
            placement.parent = self._step(placement, draft.parent, "parent")
        if draft.depends_on:
            self._resolve_dependencies(placement, neighbours)
        if draft.child_block is not None:
            placement.child_block = require_uuid(draft.child_block, "child_block")
            if placement.child_block == placement.uuid:
                raise InvalidStep(f"{placement.name!r} uses its own uuid as child_block; use a different one")

    def _resolve_dependencies(self, placement: Placement, neighbours: Neighbours) -> None:
        dependencies: dict[int, Placement | ExistingStep] = {}
        for step in placement.draft.depends_on:
            dependency = self._step(placement, step, "dependency")
            if dependency is placement:
                raise InvalidStep(f"{placement.name!r} depends on itself")
            kind = dependency.draft.type if isinstance(dependency, Placement) else dependency.type
            if kind != "default":
                raise InvalidStep(f"{placement.name!r} depends on an exception handler; handlers have no DAG edges")
            dependencies[id(dependency)] = dependency
            if isinstance(dependency, Placement):
                dependency.has_dependents = True
            else:
                neighbours.has_dependents.add(dependency.id)
        placement.dependencies = tuple(dependencies.values())

    def _step(self, placement: Placement, step: StepLike, role: str) -> Placement | ExistingStep:
        step = self.known.get(id(step), step)
        if isinstance(step, NewStep):
            if id(step) not in self.new:
                raise InvalidStep(
                    f"{placement.name!r} refers to a new step as its {role} that is not part of this call"
                )
            return self.new[id(step)]
        if isinstance(step, Step | StepRef):
            step = step.id or step.uuid
        key = require_uuid(step, role) if isinstance(step, str) else step
        if isinstance(key, str) and key in self.new:
            return self.new[key]
        if key not in self.existing:
            raise InvalidStep(f"{placement.name!r} refers to a {role} that does not exist: {key}")
        return self.existing[key]
