"""What retention keeps, when it ran and whether it keeps up: for `doctor` and the dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from stepwell.operate.retention.options import RetentionOptions, days_before
from stepwell.store import Transaction
from stepwell.store.engine import retention as verbs

# A pass of a normal day takes seconds, and there is one every ten minutes: a day without a complete one is a problem.
BEHIND_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class RetentionStatus:
    """`keep_days` is None if everything is kept. `backlog` is at most the number of steps that are due to go."""

    keep_days: float | None
    archives: bool
    archive_days: float | None
    has_run: bool
    is_running: bool
    last_run: datetime | None  # when the last pass ended
    steps: int  # that went in the last pass, or in the one under way
    workflows: int
    backlog: int
    late_seconds: float  # since when the oldest of them is due
    is_behind: bool

    def __str__(self) -> str:
        if self.keep_days is None:
            return "everything is kept"
        what = "archived" if self.archives else "deleted"
        when = f"last pass ended {self.last_run:%Y-%m-%d %H:%M} UTC" if self.last_run else "no pass has ended yet"
        line = f"settled workflows are {what} after {self.keep_days:g} days; {when}"
        if not self.is_behind:
            return line
        late = timedelta(seconds=round(self.late_seconds))
        return f"{line}; it is behind by {late}, at most {self.backlog:,} steps: is `stepwell up` running?"


def status_of(tx: Transaction, options: RetentionOptions, now: datetime) -> RetentionStatus:
    """`options` are used until a process has recorded those that it runs with."""
    row = verbs.status(tx)
    if row.recorded_at is not None:
        keep, archives, archive_days = row.keep_days, bool(row.archives), row.archive_days
    else:
        keep, archives, archive_days = kept(options.keep_days), options.archive, kept(options.archive_days)
    backlog, late = 0, 0.0
    if keep is not None:
        cutoff = days_before(now, keep)
        first = verbs.step_from(tx, id=(row.position or 0) + 1)
        if first is not None and first.created_at < cutoff:
            backlog = _first_id_created_at(tx, cutoff, first.id) - first.id
            since = first.created_at if row.complete_until is None else max(first.created_at, row.complete_until)
            late = max(0.0, (cutoff - since).total_seconds())
    return RetentionStatus(
        keep_days=keep,
        archives=archives,
        archive_days=archive_days if archives else None,
        has_run=row.recorded_at is not None,
        is_running=row.holder is not None and row.held_until is not None and row.held_until > now,
        last_run=row.ended_at,
        steps=row.step_count,
        workflows=row.workflow_count,
        backlog=backlog,
        late_seconds=late,
        is_behind=backlog > 0 and late > BEHIND_SECONDS,
    )


def kept(days: float) -> float | None:
    """As it is stored: None for ever."""
    return None if RetentionOptions(keep_days=days).keeps_everything else days


def _first_id_created_at(tx: Transaction, moment: datetime, low: int) -> int:
    """The id from which on steps were created at this moment or later: thirty look-ups instead of a count."""
    high = (verbs.newest_id(tx) or 0) + 1
    while low < high:
        middle = (low + high) // 2
        found = verbs.step_from(tx, id=middle)
        if found is None or found.created_at >= moment:
            high = middle
        else:
            low = max(middle, found.id) + 1
    return low
