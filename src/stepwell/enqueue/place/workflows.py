"""The workflow and the group of new steps: connected steps share both.

A union-find over parents, block roots, dependencies and named workflows finds the connected steps of a call.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.enqueue.place.placement import Placement, require_uuid
from stepwell.model.errors import InvalidStep
from stepwell.model.features import WORKFLOW
from stepwell.model.workflow_states import SETTLED
from stepwell.store import Transaction
from stepwell.store.engine import creation, settling
from stepwell.store.engine import placement as placement_verbs
from stepwell.store.engine.placement import ExistingStep


def assign_workflows(
    tx: Transaction, placements: Sequence[Placement], naming: Sequence[Placement], rotation: Sequence[str]
) -> None:
    """Give every step a workflow and a group; connected steps that have no group yet get the next one in rotation."""
    if not naming:
        for placement, group in zip(placements, _next_groups(tx, len(placements), rotation), strict=True):
            placement.group = group
        return
    without_group = []
    for members, is_connected in _components(placements, naming):
        if is_connected:
            workflow, group = _workflow_and_group(tx, members)
            is_declared = _is_declared(tx, workflow, members)
            for placement in members:
                placement.workflow, placement.group = workflow, group
                if is_declared:
                    placement.belongs_to = WORKFLOW
        if not members[0].group:
            without_group.append(members)
    for members, group in zip(without_group, _next_groups(tx, len(without_group), rotation), strict=True):
        for placement in members:
            placement.group = group


def _components(placements: Sequence[Placement], naming: Sequence[Placement]) -> list[tuple[list[Placement], bool]]:
    """The connected components, in the order of the call; False for a step without any connection."""
    connections = _Connections(naming)
    components: dict[int, list[Placement]] = {}
    for placement in placements:
        components.setdefault(id(connections.representative(placement)), []).append(placement)
    return [(members, members[0] in connections) for members in components.values()]


class _Connections:
    """A union-find: following the leaders of a step leads to the representative of its component."""

    def __init__(self, naming: Sequence[Placement]) -> None:
        self._leaders: dict[int, Placement] = {}
        by_workflow: dict[str, Placement] = {}
        for placement in naming:
            self._leaders.setdefault(id(placement), placement)
            for other in (placement.parent, placement.block_root, *placement.dependencies):
                if isinstance(other, Placement):
                    self._unite(placement, other)
            if placement.draft.workflow is not None:
                workflow = require_uuid(placement.draft.workflow, "workflow")
                self._unite(placement, by_workflow.setdefault(workflow, placement))

    def __contains__(self, placement: Placement) -> bool:
        return id(placement) in self._leaders

    def representative(self, placement: Placement) -> Placement:
        return self._find(placement) if placement in self else placement

    def _find(self, placement: Placement) -> Placement:
        while (leader := self._leaders.setdefault(id(placement), placement)) is not placement:
            self._leaders[id(placement)] = self._leaders[id(leader)]  # path halving: keeps the chains short
            placement = leader
        return placement

    def _unite(self, one: Placement, other: Placement) -> None:
        self._leaders[id(self._find(one))] = self._find(other)


def _workflow_and_group(tx: Transaction, members: Sequence[Placement]) -> tuple[str, str]:
    """The workflow and the group of connected steps; an empty group if none is given by an existing step or a draft."""
    workflows: dict[str, str] = {}
    requested: dict[str, Placement] = {}
    for placement in members:
        draft = placement.draft
        for other in (placement.parent, placement.block_root, *placement.dependencies):
            if isinstance(other, ExistingStep):
                workflows[other.workflow_id or other.uuid] = other.group or ""
        if draft.workflow is not None:
            named = require_uuid(draft.workflow, "workflow")
            if named not in workflows:
                workflows[named] = placement_verbs.group_of_workflow(tx, workflow=named) or ""
        if draft.group is not None:
            requested.setdefault(draft.group, placement)
    if len(workflows) > 1:
        raise InvalidStep(
            f"{members[0].name!r} would connect workflows {' and '.join(sorted(workflows))}; "
            "parents, blocks and dependencies must stay inside one workflow"
        )
    workflow, group = next(iter(workflows.items())) if workflows else (_root_of(members).uuid, "")
    if len(requested) > 1 or (group and requested and group not in requested):
        raise InvalidStep(
            f"connected steps share one group; {members[0].name!r} and the steps connected to it "
            f"ask for {', '.join(sorted(requested.keys() | ({group} - {''})))}"
        )
    return workflow, next(iter(requested), group)


def _is_declared(tx: Transaction, workflow: str, members: Sequence[Placement]) -> bool:
    """Whether they join a declared workflow; refused once it has settled. Until the commit, it cannot settle."""
    if any(placement.draft.planned is not None and placement.parent is None for placement in members):
        return True  # they are the workflow
    # A parent is locked and unfinished, so its workflow cannot settle.
    if any(isinstance(each.parent, ExistingStep) and each.parent.belongs_to == WORKFLOW for each in members):
        return True
    others = [other for each in members for other in (each.block_root, *each.dependencies)]
    is_named = any(placement.draft.workflow is not None for placement in members)
    if not is_named and not any(isinstance(other, ExistingStep) and other.belongs_to == WORKFLOW for other in others):
        return False
    state = settling.lock_for_new_steps(tx, id=workflow)
    if state in SETTLED:
        raise InvalidStep(
            f"{members[0].name!r} cannot join workflow {workflow}, which has settled ({state}); nothing was written. "
            "Retry a step of it first, which reopens it"
        )
    return state is not None


def _root_of(members: Sequence[Placement]) -> Placement:
    return next((placement for placement in members if placement.parent is None), members[0])


def _next_groups(tx: Transaction, count: int, rotation: Sequence[str]) -> list[str]:
    return [rotation[turn % len(rotation)] for turn in creation.reserve_rotation_numbers(tx, count)] if count else []
