"""Folding: adding the changes of counters to the totals, minutes and causes, so that readers have little to add up."""

from __future__ import annotations

from typing import Final

from stepwell.look.figures import MINUTES_KEPT
from stepwell.look.tally import histograms
from stepwell.model import codec
from stepwell.operate.causes import fold_causes, recount_causes
from stepwell.store import Database, Transaction
from stepwell.store.engine import counters, sweep, trouble

FOLD_ROWS: Final = 5_000  # per transaction: on SQLite nothing else can be written meanwhile


def fold(database: Database, limit: int = FOLD_ROWS) -> bool:
    """Fold at most this many rows of the tally, in one transaction; returns whether there were any."""

    def add(tx: Transaction) -> bool:
        has_causes = fold_causes(tx, limit)
        through = counters.tally_through(tx, limit=limit)
        if through is None:
            return has_causes
        times = histograms(counters.take_tally(tx, through=through))
        # In order: two folds at once must not wait for each other in a circle.
        rows = [(tx.timestamp(key[0]), *key[1:], number) for key, number in sorted(times.items())]
        if rows:
            counters.add_to_minutes(tx, rows=codec.encode(rows))
        return True

    return database.transact(add)


def fold_all(database: Database) -> None:
    while fold(database):
        pass


def forget_minutes(database: Database) -> None:
    """Delete old minutes, and numbers of hosts, actions, queues and causes that have no steps any more."""

    def forget(tx: Transaction) -> None:
        counters.delete_minutes(tx, before=database.now() - MINUTES_KEPT)
        counters.delete_zero_totals(tx)
        trouble.delete_zero_causes(tx)

    database.transact(forget)


def recount(database: Database) -> None:
    """Make the counters, `steps_trouble` and the causes anew from the steps.

    Needed only after changes without the triggers. One snapshot: what is committed meanwhile is neither counted
    here nor deleted from the tally.
    """

    def count(tx: Transaction) -> None:
        sweep.use_one_snapshot(tx)
        counters.empty_tally(tx)
        counters.empty_totals(tx)
        counters.count_again(tx)
        counters.empty_trouble(tx)
        counters.list_trouble_again(tx)
        recount_causes(tx)

    database.transact(count)
