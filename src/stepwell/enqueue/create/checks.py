"""Checks before anything is written."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.define.drafts import NewStep, check, encode_arguments
from stepwell.enqueue.place import Placement
from stepwell.enqueue.place.blocks import refuse_names_of_blocks
from stepwell.model import codec
from stepwell.model.errors import InvalidStep, KeyConflict
from stepwell.model.step import StepRef
from stepwell.store import Transaction
from stepwell.store.engine import creation
from stepwell.store.engine import placement as placement_verbs


def checked_arguments(drafts: Sequence[NewStep]) -> list[str]:
    """Check what needs no database; returns the arguments of each draft as JSON."""
    if len({draft.identity for draft in drafts}) < len(drafts):
        raise InvalidStep("the same NewStep was passed twice")
    for draft in drafts:
        check(draft)
    return [encode_arguments(draft) for draft in drafts]


def refuse_taken_uuids(tx: Transaction, placements: Sequence[Placement]) -> None:
    """A uuid chosen by the caller must not be that of an existing step or block."""
    chosen = [placement.uuid for placement in placements if placement.draft.uuid is not None]
    if not chosen:
        return
    taken = [row.uuid for row in placement_verbs.lock_steps(tx, ids=[], uuids=chosen)]
    if taken or len(set(chosen)) < len(chosen):
        raise InvalidStep(f"a step with the uuid {(taken or chosen)[0]} already exists; nothing was written")
    refuse_names_of_blocks(tx, chosen)


def known_by_key(tx: Transaction, drafts: Sequence[NewStep], arguments: Sequence[str]) -> dict[int, StepRef]:
    """The steps of this call that already exist under their idempotency key, by the identity of their drafts."""
    keyed: dict[str, tuple[NewStep, str]] = {}
    for draft, text in zip(drafts, arguments, strict=True):
        if draft.key is not None:
            if draft.key in keyed:
                raise InvalidStep(f"two steps of one call have the key {draft.key!r}")
            keyed[draft.key] = draft, text
    if not keyed:
        return {}
    keys = list(keyed)
    creation.lock_keys(tx, keys=keys)
    known: dict[int, StepRef] = {}
    for row in creation.steps_with_keys(tx, keys=keys):
        draft, text = keyed[row.idempotency_key]
        if (row.action, codec.decode(row.arguments)) != (draft.action, codec.decode(text)):
            raise KeyConflict(
                f"the key {draft.key!r} belongs to step {row.id} ({row.action}), "
                "which has a different action or different arguments; nothing was written"
            )
        known[draft.identity] = StepRef(row.id, row.uuid)
    return known
