"""Where a new step stands: its parent, block and index, its workflow and group, its queue and priority.

Steps that are tied together (parent and child, one block, a DAG edge) share one workflow and one group. Creating
steps through the API and adopting rows that plain SQL wrote both come through here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from stepwell.define.drafts import NewStep, StepLike
from stepwell.enqueue.cycles import refuse_cycles
from stepwell.model.errors import InvalidStep
from stepwell.model.ids import canonical_uuid, uuid7
from stepwell.model.reasons import DORMANT
from stepwell.model.states import UNFINISHED
from stepwell.model.step import Step, StepRef
from stepwell.store import Transaction
from stepwell.store.engine import creation
from stepwell.store.engine import placement as placement_verbs
from stepwell.store.engine.placement import ExistingStep

PRIORITY_QUEUE: Final = "priority"
DEFAULT_QUEUE: Final = "default"


@dataclass(slots=True, eq=False)
class Placement:
    """A step on its way into the database: what was asked for, and what is worked out from that."""

    draft: NewStep
    uuid: str
    id: int = 0
    arguments: str = "{}"
    parent: Placement | ExistingStep | None = None
    block_root: Placement | ExistingStep | None = None  # the first step of a root block that this one joins
    dependencies: Sequence[Placement | ExistingStep] = ()
    # Until it is found to belong with others, a step is alone in a block and a workflow of its own.
    block: str = field(init=False)
    workflow: str = field(init=False)
    index: int = field(init=False)
    child_block: str | None = None
    group: str = ""
    queue: str = DEFAULT_QUEUE
    priority: str = "default"
    has_dependents: bool = False
    has_children: bool = False

    def __post_init__(self) -> None:
        self.block = self.workflow = self.uuid
        self.index = self.draft.index or 1

    @property
    def name(self) -> str:
        return self.draft.label or self.draft.action

    @property
    def parent_id(self) -> int | None:
        return id_of(self.parent) if self.parent is not None else None

    @property
    def shares_block(self) -> bool:
        return self.parent is not None or self.block != self.uuid


def id_of(step: Placement | ExistingStep) -> int:
    return step.id


@dataclass(slots=True)
class Neighbours:
    """The order to write the new steps in, and what they changed around them."""

    parents_first: list[Placement] = field(default_factory=list)
    child_blocks: dict[int, str] = field(default_factory=dict)
    has_dependents: set[int] = field(default_factory=set)
    joined_root_blocks: set[str] = field(default_factory=set)
    joined_blocks: set[str] = field(default_factory=set)


def place(
    tx: Transaction,
    placements: Sequence[Placement],
    queues: set[str],
    rotation: Sequence[str],
    known: Mapping[int, StepRef] = MappingProxyType({}),
) -> Neighbours:
    """Fill in every placement, or refuse with the reason. Locks the existing steps that are involved.

    `known` are drafts of the same call, by their identity, that exist already: their key has found them.
    """
    around = Neighbours()
    # Most steps of a big call name nobody and nothing: they need a group, a queue and no more thought.
    naming = [placement for placement in placements if names_others(placement.draft)]
    # By the draft itself, and by its uuid.
    new: dict[int | str, Placement] = {}
    if naming:
        new |= {placement.draft.identity: placement for placement in placements}
        new |= {placement.uuid: placement for placement in placements}
    existing = _find_existing(tx, naming, new, known)
    for placement in naming:
        _tie(placement, existing, new, known, around)
    _find_blocks(tx, naming, new, around)
    around.parents_first = _parents_first(placements) if naming else list(placements)
    _Families(placements, naming).settle(tx, rotation)
    for placement in around.parents_first:
        _inherit(placement, queues)
    if any(placement.dependencies for placement in naming):
        refuse_cycles(tx, placements, around.joined_blocks | set(around.child_blocks.values()))
    # Written last: a refusal leaves nothing behind in the caller's transaction.
    for group in sorted({placement.draft.group for placement in naming if placement.draft.group is not None}):
        creation.ensure_group(tx, group=group)
    return around


def names_others(draft: NewStep) -> bool:
    return (
        draft.parent is not None
        or bool(draft.depends_on)
        or draft.block is not None
        or draft.child_block is not None
        or draft.workflow is not None
        or draft.group is not None
    )


def _find_existing(
    tx: Transaction,
    placements: Iterable[Placement],
    new: Mapping[int | str, Placement],
    known: Mapping[int, StepRef],
) -> dict[int | str, ExistingStep]:
    ids, uuids = set[int](), set[str]()
    for placement in placements:
        draft = placement.draft
        for step in (draft.parent, *draft.depends_on):
            match known.get(id(step), step):
                case Step() | StepRef() as existing if existing.id:
                    ids.add(existing.id)
                case StepRef() as child if (uuid := child.uuid) not in new:  # a child that had no id yet when named
                    uuids.add(uuid)
                case int(number) if abs(number) < 2**63:
                    ids.add(number)
                case str(text) if (uuid := normal_uuid(text, "a step")) not in new:
                    uuids.add(uuid)
    if not ids and not uuids:
        return {}
    found: dict[int | str, ExistingStep] = {}
    for row in placement_verbs.lock_steps(tx, ids=sorted(ids), uuids=sorted(uuids)):
        _refuse_unplaced(row)
        found[row.id] = found[row.uuid] = row
    return found


def _refuse_unplaced(row: ExistingStep) -> None:
    if row.group is None:
        raise InvalidStep(
            f"step {row.id} was written by plain SQL and gets its place at the next tick; "
            "nothing was written: tie others to it when that has happened"
        )


def _tie(
    placement: Placement,
    existing: dict[int | str, ExistingStep],
    new: Mapping[int | str, Placement],
    known: Mapping[int, StepRef],
    around: Neighbours,
) -> None:
    """Turn what the draft names into the placements and rows that it means."""
    draft = placement.draft

    def meant(step: StepLike, role: str) -> Placement | ExistingStep:
        step = known.get(id(step), step)
        if isinstance(step, NewStep):
            if id(step) not in new:
                raise InvalidStep(f"{placement.name!r} names a new step as its {role} that is not part of this call")
            return new[id(step)]
        if isinstance(step, Step | StepRef):
            step = step.id or step.uuid
        key = normal_uuid(step, role) if isinstance(step, str) else step
        if isinstance(key, str) and key in new:
            return new[key]
        if key not in existing:
            raise InvalidStep(f"{placement.name!r} names a {role} that does not exist: {key}")
        return existing[key]

    if draft.parent is not None:
        placement.parent = meant(draft.parent, "parent")
    dependencies: dict[int, Placement | ExistingStep] = {}
    for step in draft.depends_on:
        dependency = meant(step, "dependency")
        if dependency is placement:
            raise InvalidStep(f"{placement.name!r} depends on itself")
        kind = dependency.draft.type if isinstance(dependency, Placement) else dependency.type
        if kind != "default":
            raise InvalidStep(f"{placement.name!r} depends on an exception handler; handlers have no DAG edges")
        dependencies[id(dependency)] = dependency
        if isinstance(dependency, Placement):
            dependency.has_dependents = True
        else:
            around.has_dependents.add(dependency.id)
    placement.dependencies = tuple(dependencies.values())
    if draft.child_block is not None:
        placement.child_block = normal_uuid(draft.child_block, "child_block")
        if placement.child_block == placement.uuid:
            raise InvalidStep(f"{placement.name!r} has its own uuid for a child_block; give it another")


def _find_blocks(
    tx: Transaction, placements: Sequence[Placement], new: Mapping[int | str, Placement], around: Neighbours
) -> None:
    """Give everyone a block: a child its parent's, and whoever names a block that one (with its parent)."""
    announced = {p.child_block: p for p in placements if p.child_block}
    if len(announced) != sum(1 for p in placements if p.child_block):
        raise InvalidStep("two steps announce the same child_block; a block has one parent")
    for block, placement in announced.items():
        _refuse_taken(tx, block, placement, placement.id)
    parents: dict[str, ExistingStep | None] = {}
    block_roots: dict[str, Placement | ExistingStep] = {}
    for placement in placements:
        named = placement.draft.block
        if named is not None:
            named = normal_uuid(named, "block")
            if placement.parent is None:
                placement.parent = announced.get(named) or _parent_of(tx, named, parents, block_roots, around)
        if placement.parent is not None:
            _refuse_ended(placement)
            if (
                named is not None
                and isinstance(placement.parent, ExistingStep)
                and not placement.parent.child_block_uuid
            ):
                _refuse_taken(tx, named, placement, placement.parent.id)
            placement.block = _child_block_of(placement.parent, named, placement, around)
        elif named is not None:
            placement.block = named
            placement.has_dependents = True
            if (namesake := new.get(named)) is not None and namesake.parent is None:  # the block is its own
                block_roots.setdefault(named, namesake)
                around.joined_root_blocks.add(named)
            block_root = block_roots.setdefault(named, placement)
            placement.block_root = None if block_root is placement else block_root


def _parent_of(
    tx: Transaction,
    block: str,
    seen: dict[str, ExistingStep | None],
    block_roots: dict[str, Placement | ExistingStep],
    around: Neighbours,
) -> ExistingStep | None:
    """The step that announced this block, if one did; else note who stands in the root block already."""
    if block not in seen:
        placement_verbs.lock_name(tx, name=f"block {block}")
        seen[block] = None
        if (parent_id := placement_verbs.parent_of_block(tx, block=block)) is not None:
            (parent,) = placement_verbs.lock_steps(tx, ids=[parent_id], uuids=[])
            _refuse_unplaced(parent)
            seen[block] = parent
        elif (member_id := placement_verbs.member_of_block(tx, block=block)) is not None:
            (block_root,) = placement_verbs.lock_steps(tx, ids=[member_id], uuids=[])
            _refuse_unplaced(block_root)
            block_roots[block] = block_root
            around.joined_root_blocks.add(block)
            around.joined_blocks.add(block)
    return seen[block]


def _refuse_taken(tx: Transaction, block: str, placement: Placement, parent_id: int) -> None:
    """A block that has a parent, or steps without one, cannot become somebody's child block."""
    placement_verbs.lock_name(tx, name=f"block {block}")
    if (taken_by := placement_verbs.occupant_of_block(tx, block=block, parent=parent_id)) is not None:
        raise InvalidStep(
            f"{placement.name!r} makes {block} a child_block, but step {taken_by} already has it; nothing was written"
        )


def _refuse_ended(placement: Placement) -> None:
    parent = placement.parent
    if isinstance(parent, Placement) or parent is None or parent.state in UNFINISHED:
        return
    if parent.reason != DORMANT:
        raise InvalidStep(
            f"{placement.name!r} cannot become a child of step {parent.id}, which has ended ({parent.state}); "
            "nothing was written: retry that step first, or create this one without a parent"
        )


def _child_block_of(
    parent: Placement | ExistingStep, named: str | None, placement: Placement, around: Neighbours
) -> str:
    if isinstance(parent, Placement):
        parent.has_children = True
        parent.child_block = parent.child_block or named or uuid7()
        block = parent.child_block
    else:
        if parent.child_block_uuid is not None:
            around.joined_blocks.add(parent.child_block_uuid)
        block = parent.child_block_uuid = parent.child_block_uuid or named or uuid7()
        around.child_blocks[parent.id] = block
    if named is not None and named != block:
        raise InvalidStep(f"{placement.name!r} names block {named}, but its parent's child block is {block}")
    if placement.uuid == block:
        raise InvalidStep(f"{placement.name!r} has the uuid of its parent's child block, {block}; give it another")
    return block


def refuse_names_of_blocks(tx: Transaction, uuids: Sequence[str]) -> None:
    """A step stands alone in a block of its own name, at first: there must not be others in it already."""
    for name in placement_verbs.blocks_of_these_names(tx, uuids=uuids):
        raise InvalidStep(f"the uuid {name} is the name of a block that others have; give the step another")


def _parents_first(placements: Sequence[Placement]) -> list[Placement]:
    ordered: list[Placement] = []
    state: dict[int, bool] = {}  # False while its ancestors are being placed, True once it is in `ordered`
    for placement in placements:
        chain = [placement]
        while isinstance(chain[-1].parent, Placement) and id(chain[-1].parent) not in state:
            state[id(chain[-1])] = False
            chain.append(chain[-1].parent)
        top = chain[-1]
        if isinstance(top.parent, Placement) and not state[id(top.parent)]:
            names = " → ".join(step.name for step in chain)
            raise InvalidStep(f"these steps are each other's parents: {names}")
        for step in reversed(chain):
            if not state.get(id(step)):
                state[id(step)] = True
                ordered.append(step)
    return ordered


class _Families:
    """Which steps belong together, and so share a workflow and a group (a union-find over the call)."""

    def __init__(self, placements: Sequence[Placement], naming: Sequence[Placement]) -> None:
        self._placements = placements
        self._leader: dict[int, Placement] = {}
        of_workflow: dict[str, Placement] = {}
        for placement in naming:
            self._leader.setdefault(id(placement), placement)
            for other in (placement.parent, placement.block_root, *placement.dependencies):
                if isinstance(other, Placement):
                    self._unite(placement, other)
            if placement.draft.workflow is not None:
                workflow = normal_uuid(placement.draft.workflow, "workflow")
                self._unite(placement, of_workflow.setdefault(workflow, placement))

    def _find(self, placement: Placement) -> Placement:
        while (leader := self._leader.setdefault(id(placement), placement)) is not placement:
            # Led one step further up, so that no way stays long.
            self._leader[id(placement)] = self._leader[id(leader)]
            placement = leader
        return placement

    def _unite(self, one: Placement, other: Placement) -> None:
        self._leader[id(self._find(one))] = self._find(other)

    def settle(self, tx: Transaction, rotation: Sequence[str]) -> None:
        """Give everyone a workflow and a group; whoever has no group by then gets the next one in turn."""
        families: dict[int, list[Placement]] = {}
        for placement in self._placements:
            home = self._find(placement) if id(placement) in self._leader else placement
            families.setdefault(id(home), []).append(placement)
        homeless = []
        for leader, family in families.items():
            if leader in self._leader:
                workflow, group = _family_home(tx, family)
                for placement in family:
                    placement.workflow, placement.group = workflow, group
            if not family[0].group:
                homeless.append(family)
        for family, group in zip(homeless, _next_groups(tx, len(homeless), rotation), strict=True):
            for placement in family:
                placement.group = group


def _family_home(tx: Transaction, family: Sequence[Placement]) -> tuple[str, str]:
    """The workflow and the group of steps that belong together; an empty group: its turn decides."""
    workflows: dict[str, str] = {}
    asked: dict[str, Placement] = {}
    for placement in family:
        draft = placement.draft
        for tied in (placement.parent, placement.block_root, *placement.dependencies):
            if isinstance(tied, ExistingStep):
                workflows[tied.workflow_id or tied.uuid] = tied.group or ""
        if draft.workflow is not None:
            named = normal_uuid(draft.workflow, "workflow")
            if named not in workflows:
                workflows[named] = placement_verbs.workflow_home(tx, workflow=named) or ""
        if draft.group is not None:
            asked.setdefault(draft.group, placement)
    if len(workflows) > 1:
        raise InvalidStep(
            f"{family[0].name!r} would tie workflows {' and '.join(sorted(workflows))} together; "
            "parents, blocks and dependencies must stay inside one workflow"
        )
    workflow, group = next(iter(workflows.items())) if workflows else (_root(family).uuid, "")
    if len(asked) > 1 or (group and asked and group not in asked):
        raise InvalidStep(
            f"steps that belong together share one group; {family[0].name!r} and those tied to it "
            f"ask for {', '.join(sorted(asked.keys() | ({group} - {''})))}"
        )
    return workflow, next(iter(asked), group)


def _root(family: Sequence[Placement]) -> Placement:
    return next((placement for placement in family if placement.parent is None), family[0])


def _next_groups(tx: Transaction, count: int, rotation: Sequence[str]) -> list[str]:
    return [rotation[turn % len(rotation)] for turn in creation.take_rotation_numbers(tx, count)] if count else []


def _inherit(placement: Placement, queues: set[str]) -> None:
    """A high priority comes from the parent or the block, too; the queue follows from it unless it was chosen."""
    placement.priority = placement.draft.priority
    if (above := placement.parent or placement.block_root) is not None and placement.priority != "high":
        placement.priority = above.priority
    placement.queue = queue_of(placement.draft.queue, placement.priority, queues)


def queue_of(asked: str | None, priority: str, queues: set[str]) -> str:
    """The queue that was asked for, if it is known; the urgent have one of their own."""
    if asked is not None:
        return asked if asked in queues else DEFAULT_QUEUE
    return PRIORITY_QUEUE if priority == "high" else DEFAULT_QUEUE


def normal_uuid(text: Any, what: str) -> str:
    """The canonical form of a UUID that somebody passed in."""
    if (uuid := canonical_uuid(text)) is None:
        raise InvalidStep(f"{what}: {text!r} is not a UUID")
    return uuid
