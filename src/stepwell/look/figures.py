"""Figures about all steps: totals, hosts, classes, groups, queues, minutes, causes of failures, estimates.

They come from the counters and from small tables that are kept with the transitions: none of them reads `steps` as a
whole, however many steps have ended. They are exact at the moment of the question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from stepwell.look.figure_types import Cause, ClassFigures, Estimate, GroupFigures, HostFigures, Minute, Totals
from stepwell.look.summing import by_action, by_group, by_host, totals_of
from stepwell.store import Database, Transaction
from stepwell.store.engine import counters, reading

__all__ = ["Cause", "ClassFigures", "Estimate", "Figures", "GroupFigures", "HostFigures", "Minute", "Totals"]


class Figures:
    def __init__(self, database: Database) -> None:
        self._database = database

    def totals(self) -> Totals:
        """Steps by state, and child pending, child running and throttled, which are parts of these."""
        return totals_of(self._counters())

    def hosts(self) -> list[HostFigures]:
        """Every host with a worker or with Running steps."""
        now = self._database.now()

        def look(tx: Transaction) -> list[HostFigures]:
            return by_host(counters.counters(tx), reading.all_workers(tx, now=now), reading.lanes_of_workers(tx))

        return self._database.read(look)

    def classes(self, host: str | None = None, *, active_only: bool = True) -> list[ClassFigures]:
        """The actions with Running or Dispatched steps (or all), on all hosts or on one."""
        now = self._database.now()

        def look(tx: Transaction) -> list[ClassFigures]:
            lanes = None
            if host is not None:
                workers = {row.id for row in reading.all_workers(tx, now=now) if row.hostname == host and row.alive}
                lanes = {(row.queue, row.action) for row in reading.lanes_of_workers(tx) if row.worker_id in workers}
            return by_action(counters.counters(tx), host, lanes)

        found = self._database.read(look)
        return [row for row in found if row.is_active] if active_only else found

    def groups(self) -> list[GroupFigures]:
        """The unfinished steps of each group; also of groups without any."""
        return self._database.read(lambda tx: by_group(counters.counters(tx), reading.all_groups(tx)))

    def queues(self) -> dict[str, dict[str, int]]:
        """The unfinished steps of each queue by state."""
        found: dict[str, dict[str, int]] = {}
        for row in self._counters():
            if not row.state.is_terminal:
                of_queue = found.setdefault(row.queue, {"Pending": 0, "Dispatched": 0, "Running": 0})
                of_queue[row.state] += row.steps
        return dict(sorted(found.items()))

    def minutes(self, last: timedelta = timedelta(hours=1), *, action: str | None = None) -> list[Minute]:
        """Throughput and latency per minute, oldest first, without gaps; the current minute is the last."""
        raise NotImplementedError

    def causes(self, *, limit: int = 50, since: datetime | None = None) -> list[Cause]:
        """Failures by cause, the most recent first, each with what stands behind it."""
        raise NotImplementedError

    def cause(self, fingerprint: str) -> Cause | None:
        raise NotImplementedError

    def oldest_ready(self) -> datetime | None:
        """Since when the step that has waited longest for a worker could have run."""
        return self._database.read(counters.oldest_ready)

    def estimate(self) -> Estimate:
        """When the agenda will be empty, at the pace of the last minutes."""
        raise NotImplementedError

    def _counters(self) -> Sequence[counters.Counter]:
        return self._database.read(counters.counters)


Read = Callable[[Transaction], Sequence[counters.Counter]]
