"""Figures about all steps: totals, hosts, classes, groups, queues, minutes, causes of failures, estimates.

They come from the counters and from small tables that are kept with the transitions: none of them reads `steps` as a
whole, however many steps have ended. They are exact at the moment of the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from stepwell.look.figure_types import (
    Cause,
    ClassFigures,
    DispatchedTotals,
    Estimate,
    GroupFigures,
    HostFigures,
    Minute,
    Totals,
)
from stepwell.look.minutes import series
from stepwell.look.summing import by_action, by_group, by_host, totals_of
from stepwell.model.states import State
from stepwell.store import Database, Transaction
from stepwell.store.engine import counters, reading, settings, sweep, ticks, trouble
from stepwell.store.filters import check_page

__all__ = ["Cause", "ClassFigures", "Estimate", "Figures", "GroupFigures", "HostFigures", "Minute", "Totals"]

MINUTES_KEPT: Final = timedelta(days=1)
ESTIMATED_FROM: Final = timedelta(minutes=5)  # of which an estimate takes the throughput


class Figures:
    def __init__(self, database: Database) -> None:
        self._database = database

    def totals(self) -> Totals:
        """Steps by state, and child pending, child running and throttled, which are parts of these."""
        return totals_of(self._counters())

    def dispatched(self) -> DispatchedTotals:
        """What can be seen of wrong counters without reading all steps."""

        def look(tx: Transaction) -> DispatchedTotals:
            sweep.use_one_snapshot(tx)
            rows = counters.counters(tx)
            return DispatchedTotals(
                counted=sum(row.number for row in rows if row.state is State.DISPATCHED),
                on_the_agenda=sum(row.steps for row in reading.agenda_by_status(tx) if row.status == "dispatched"),
                is_negative=any(row.number < 0 for row in rows),
            )

        return self._database.read(look)

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
        """The queued steps of each group, and those whose own code runs; also of groups without any."""

        def look(tx: Transaction) -> list[GroupFigures]:
            running = {row.group: row.steps for row in counters.running_by_group(tx)}
            return by_group(counters.counters(tx), running, reading.all_groups(tx))

        return self._database.read(look)

    def queues(self) -> dict[str, dict[str, int]]:
        """The unfinished steps of each queue by state."""
        found: dict[str, dict[str, int]] = {}
        for row in self._counters():
            if not row.state.is_terminal:
                of_queue = found.setdefault(row.queue, {"Pending": 0, "Dispatched": 0, "Running": 0})
                of_queue[row.state] += row.number
        return dict(sorted(found.items()))

    def minutes(self, last: timedelta = timedelta(hours=1), *, action: str | None = None) -> list[Minute]:
        """Throughput and latency per minute, oldest first, without gaps; the current minute is the last.

        Minutes are kept for a day.
        """
        now = self._database.now().replace(second=0, microsecond=0)
        first = now - min(last, MINUTES_KEPT) + timedelta(minutes=1)
        first = first.replace(second=0, microsecond=0)

        def look(tx: Transaction) -> list[Minute]:
            return series(counters.minutes_since(tx, since=first, action=action), first, now)

        return self._database.read(look)

    def causes(self, *, limit: int = 50, since: datetime | None = None) -> list[Cause]:
        """Failures by cause, the most recent first, each with what stands behind it.

        What a cascade took along is behind its cause once a dispatcher has found it, seconds later.
        """
        check_page(limit)

        def look(tx: Transaction) -> list[trouble.CauseRow]:
            ticks.keep_to_indexes(tx)
            if since is None:
                return trouble.causes(tx, limit=limit)
            return trouble.causes_since(tx, since=since, limit=limit)

        return [_cause(row) for row in self._database.read(look)]

    def number_of_causes(self, most: int) -> int:
        """How many causes of failures there are, at most this many."""
        return self._database.read(lambda tx: trouble.count_causes(tx, most=most))

    def cause(self, fingerprint: str) -> Cause | None:
        """One of them; None if no failure has this fingerprint any more."""

        def look(tx: Transaction) -> trouble.CauseRow | None:
            ticks.keep_to_indexes(tx)
            return trouble.cause(tx, fingerprint=fingerprint)

        found = self._database.read(look)
        return None if found is None else _cause(found)

    def cause_of(self, step_id: int) -> Cause | None:
        """The cause of one failure; None if the step is not in trouble."""
        found = self._database.read(lambda tx: trouble.fingerprint_of(tx, step_id=step_id))
        return None if found is None else self.cause(found)

    def oldest_ready(self) -> datetime | None:
        """Since when the step that has waited longest for a worker could have run."""
        return self._database.read(counters.oldest_ready)

    def estimate(self) -> Estimate:
        """When no step is Pending or Dispatched any more, at the pace of the last five minutes, if none is added.

        While dispatching is paused, there is no such moment.
        """
        states = self.totals().states
        waiting = states[State.PENDING] + states[State.DISPATCHED]
        minutes = self.minutes(ESTIMATED_FROM)
        elapsed = (self._database.now() - minutes[0].at) / timedelta(minutes=1)
        per_minute = sum(minute.throughput for minute in minutes) / max(elapsed, 1.0)
        breaker = self._database.read(settings.breaker_state)
        is_emptying = per_minute and breaker is not None and breaker.is_on
        seconds = 60 * waiting / per_minute if is_emptying else None
        return Estimate(waiting=waiting, per_minute=round(per_minute, 2), seconds=seconds)

    def _counters(self) -> Sequence[counters.Counter]:
        return self._database.read(counters.counters)


def _cause(row: trouble.CauseRow) -> Cause:
    return Cause(
        fingerprint=row.fingerprint,
        action=row.action,
        reason=row.reason,
        error=row.error,
        steps=row.number,
        behind=row.behind,
        newest_step=row.newest_step,
        first_at=row.first_at,
        last_at=row.last_at,
    )
