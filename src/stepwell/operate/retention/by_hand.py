"""The audit row of a pass by hand: written with its first removal, and kept up to date in the transaction of each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from stepwell.model import codec
from stepwell.model.actors import By
from stepwell.operate.retention.removing import Removed
from stepwell.store import Transaction
from stepwell.store.audit import record_with_parameters
from stepwell.store.engine import operations


@dataclass(slots=True)
class PassByHand:
    """A pass that an operator makes; `by` is None if code makes it. One that removes nothing leaves no row."""

    kind: str
    by: By | None
    parameters: dict[str, Any]
    _id: int | None = None
    _total: Removed = field(default_factory=Removed)

    def record(self, tx: Transaction, removed: Removed, now: datetime) -> int | None:
        """Called in the transaction that removes this; `committed` is called with the result.

        `now` is the row's time: after that of the pass, which also removes old rows of the audit trail.
        """
        if self.by is None or not (removed.workflows or removed.steps or removed.from_archive):
            return self._id
        total = replace(self._total)
        total.add(removed)
        parameters = {
            **self.parameters,
            "workflows": total.workflows,
            "steps": total.steps,
            "from_archive": total.from_archive,
        }
        if self._id is None:
            return record_with_parameters(tx, self.kind, replace(self.by, now=now), parameters)
        operations.set_parameters(tx, id=self._id, parameters=codec.encode(parameters, "parameters"))
        return self._id

    def committed(self, operation: int | None, removed: Removed) -> None:
        self._id = operation
        self._total.add(removed)
