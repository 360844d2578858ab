"""The one place where steps are created, whichever API was called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from stepwell.define.drafts import NewStep, ResolvedStep
from stepwell.enqueue.create.announce import announce
from stepwell.enqueue.create.checks import checked_arguments, known_by_key, refuse_taken_uuids
from stepwell.enqueue.create.enrol import enrol_created
from stepwell.enqueue.create.many import insert
from stepwell.enqueue.create.names import NameCache
from stepwell.enqueue.create.neighbours import write_neighbours
from stepwell.enqueue.create.one import is_alone, write_alone
from stepwell.enqueue.place import Names, Placement, place
from stepwell.enqueue.place.placement import require_uuid
from stepwell.enqueue.resolve import resolved
from stepwell.enqueue.unresolved import note_unresolved
from stepwell.model.errors import DatabaseBusy
from stepwell.model.ids import Uuid7Generator
from stepwell.model.step import StepRef
from stepwell.store import Conflict, Database, Transaction
from stepwell.store.engine.placement import ExistingStep


class Creator:
    """Writes new steps.

    `declared` returns the queues that the app declares; each is created with the first step that uses it.
    """

    def __init__(
        self,
        database: Database,
        declared: Callable[[], Collection[str]] = frozenset,
        uuids: Uuid7Generator | None = None,
    ) -> None:
        self._database = database
        self._uuids = uuids or Uuid7Generator()
        self._names = NameCache(declared, self._uuids)

    def create(self, drafts: Iterable[NewStep], now: datetime, connection: Any = None) -> list[StepRef]:
        """Create all or none of them, in the caller's transaction if a connection is given."""
        drafts = list(drafts)
        arguments = checked_arguments(drafts)
        if not drafts:
            return []
        if connection is not None:
            try:
                with self._database.within(connection) as tx:
                    return self._write(tx, drafts, arguments, now)
            except Conflict as conflict:
                raise DatabaseBusy(
                    f"your transaction conflicts with another ({conflict}): roll it back and retry it"
                ) from conflict
        if is_alone(drafts):
            # Outside of the transaction: a repetition creates the same step.
            uuid, draft = self._uuids.next(), self._resolved_alone(drafts[0], arguments[0])
            repeatable = not self._database.hooks.has_transaction_hooks()  # a hook might write twice
            return self._database.transact(
                lambda tx: [self._write_alone(tx, draft, arguments[0], now, uuid)],
                single=repeatable and not draft.unresolved,
                repeatable=repeatable,
            )
        return self._database.transact(lambda tx: self._write(tx, drafts, arguments, now))

    def create_in(self, tx: Transaction, drafts: Sequence[NewStep], now: datetime) -> list[StepRef]:
        """Create them as part of a transaction of Stepwell's own."""
        return self._write(tx, drafts, checked_arguments(drafts), now)

    def create_or_find(self, tx: Transaction, draft: NewStep, now: datetime) -> tuple[StepRef, bool]:
        """The same for one step; and whether it is new, or existed under its idempotency key."""
        arguments = checked_arguments([draft])
        known = known_by_key(tx, [draft], arguments)
        if known:
            return known[draft.identity], False
        return self._write(tx, [draft], arguments, now)[0], True

    def names(self, tx: Transaction) -> Names:
        """The queues and the rotation of groups as they are now."""
        return self._names.read(tx)

    def _write(
        self, tx: Transaction, drafts: Sequence[NewStep], arguments: Sequence[str], now: datetime
    ) -> list[StepRef]:
        drafts = resolved(tx, drafts, arguments)
        if is_alone(drafts):
            return [self._write_alone(tx, drafts[0], arguments[0], now, self._uuids.next())]
        known = known_by_key(tx, drafts, arguments)
        placements = [
            Placement.of(draft, uuid if draft.uuid is None else require_uuid(draft.uuid, "uuid"), text)
            for draft, uuid, text in zip(drafts, self._uuids.many(len(drafts)), arguments, strict=True)
            if not known or draft.identity not in known
        ]
        if placements:
            refuse_taken_uuids(tx, placements)
            names = self._names.for_drafts(tx, drafts)
            in_order, neighbours = place(tx, placements, names, known)
            now = max([now, *(each.parent.updated_at for each in placements if isinstance(each.parent, ExistingStep))])
            insert(tx, in_order, now)
            write_neighbours(tx, neighbours, placements)
            note_unresolved(tx, [(placement.id, placement.draft) for placement in placements])
            enrol_created(tx, placements, neighbours, now)
            announce(tx, placements, now)
        if not known:  # then there is a placement for each draft, in the same order
            return [StepRef(placement.id, placement.uuid) for placement in placements]
        created = {placement.draft.identity: StepRef(placement.id, placement.uuid) for placement in placements}
        return [known.get(draft.identity) or created[draft.identity] for draft in drafts]

    def _resolved_alone(self, draft: NewStep, arguments: str) -> ResolvedStep:
        if isinstance(draft, ResolvedStep):
            return draft
        return self._database.read(lambda tx: resolved(tx, [draft], [arguments])[0])

    def _write_alone(self, tx: Transaction, draft: ResolvedStep, arguments: str, now: datetime, uuid: str) -> StepRef:
        ref = write_alone(tx, draft, arguments, now, uuid, self._names.for_drafts(tx, [draft]))
        note_unresolved(tx, [(ref.id, draft)])
        return ref
