"""The names that new steps use: queues, and the groups in rotation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from stepwell.define.drafts import NewStep
from stepwell.enqueue.place import Names
from stepwell.model.errors import StepwellError
from stepwell.model.ids import Uuid7Generator
from stepwell.model.suggest import warn_of_unknown_queue
from stepwell.store import Transaction
from stepwell.store.engine import creation


class NameCache:
    """Caches queues and groups, so that most calls need not read them."""

    def __init__(self, declared: Callable[[], Collection[str]], uuids: Uuid7Generator) -> None:
        self._declared = declared
        self._uuids = uuids
        self._seen = Names(set(), [], uuids)
        self._warned: set[str] = set()

    def for_drafts(self, tx: Transaction, drafts: Iterable[NewStep]) -> Names:
        """The names that these steps need; a declared queue that does not exist yet is created."""
        seen = self._seen
        if not seen.rotation:
            rotation = creation.rotation(tx)
            if not rotation:
                raise StepwellError(
                    "no group is in the rotation (a column of `steps_dispatcher`), so new steps cannot get a group; "
                    "nothing was written"
                )
            seen = self._seen = Names(seen.queues, rotation, self._uuids)
        requested = {draft.queue for draft in drafts if draft.queue is not None}
        if requested <= seen.queues:
            return seen
        queues = set(creation.queue_names(tx))
        seen = self._seen = Names(queues, seen.rotation, self._uuids)
        new = (requested - queues).intersection(self._declared())
        for queue in sorted(new):
            creation.add_queue(tx, name=queue)
        for queue in sorted(requested - queues - new - self._warned):
            self._warned.add(queue)
            warn_of_unknown_queue(queue, queues, "its steps go to the queue `default`, or `priority` if that is high")
        # The new ones are not cached: this transaction may be rolled back.
        return Names(queues | new, seen.rotation, self._uuids) if new else seen

    def read(self, tx: Transaction) -> Names:
        """All names as they are now."""
        queues = set(creation.queue_names(tx))
        for queue in sorted(new := {*self._declared()} - queues):
            creation.add_queue(tx, name=queue)
        return Names(queues | new, creation.rotation(tx), self._uuids)
