"""The placement of a step that is about to be written, and what it changes for existing steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stepwell.define.drafts import NewStep, ResolvedStep
from stepwell.enqueue.place.queues import DEFAULT_QUEUE
from stepwell.model.errors import InvalidStep
from stepwell.model.ids import Uuid7Generator, canonical_uuid
from stepwell.model.states import State
from stepwell.store.engine.placement import ExistingStep


@dataclass(frozen=True, slots=True)
class Names:
    """Names for new steps: the existing queues, the groups in rotation, and uuids for new blocks."""

    queues: set[str]
    rotation: Sequence[str]
    uuids: Uuid7Generator


class Placement(msgspec.Struct, eq=False):
    """A new step: its draft, and the columns derived from it."""

    draft: ResolvedStep
    uuid: str
    arguments: str
    # Until something connects it with others, a step has a block and a workflow of its own.
    block: str
    workflow: str
    index: int
    belongs_to: str | None  # the feature that follows its changes
    id: int = 0
    parent: Placement | ExistingStep | None = None
    block_root: Placement | ExistingStep | None = None  # the first step of a root block that this one joins
    dependencies: Sequence[Placement | ExistingStep] = ()
    child_block: str | None = None
    group: str = ""
    queue: str = DEFAULT_QUEUE
    priority: str = "default"
    has_dependents: bool = False
    has_children: bool = False

    @classmethod
    def of(cls, draft: ResolvedStep, uuid: str, arguments: str = "{}", id: int = 0) -> Placement:
        """Before anything connects it with others."""
        return cls(draft, uuid, arguments, uuid, uuid, draft.index or 1, draft.belongs_to, id)

    @property
    def name(self) -> str:
        return self.draft.label or self.draft.action

    @property
    def parent_id(self) -> int | None:
        return self.parent.id if self.parent is not None else None

    @property
    def shares_block(self) -> bool:
        return self.parent is not None or self.block != self.uuid

    @property
    def state(self) -> State:
        """The state that it starts in."""
        if self.draft.planned is not None:
            return self.draft.planned.state
        return State.NOT_RUNNABLE if self.is_dormant else State.PENDING

    @property
    def is_dormant(self) -> bool:
        """Exception handlers are created NotRunnable and promoted when their block fails."""
        return self.draft.type == "resolve-exception"


@dataclass(slots=True)
class Neighbours:
    """Existing steps and blocks that the new steps change."""

    child_blocks: dict[int, str] = field(default_factory=dict)  # of existing parents, by their ids
    has_dependents: set[int] = field(default_factory=set)
    joined_root_blocks: set[str] = field(default_factory=set)
    joined_blocks: set[str] = field(default_factory=set)


def names_others(draft: NewStep) -> bool:
    """Whether a draft has any connection, or names a group that its connections must share."""
    return (
        draft.parent is not None
        or bool(draft.depends_on)
        or draft.block is not None
        or draft.child_block is not None
        or draft.workflow is not None
        or draft.group is not None
    )


def require_uuid(text: Any, what: str) -> str:
    """The canonical form of a UUID that a caller passed in."""
    if (uuid := canonical_uuid(text)) is None:
        raise InvalidStep(f"{what}: {text!r} is not a UUID")
    return uuid
