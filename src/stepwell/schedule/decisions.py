"""What becomes of the slots of one schedule that are due: decided from its definition and the time. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from stepwell.schedule.cron import CronExpression
from stepwell.schedule.definition import Definition

MISFIRE: Final = "misfire"
OVERLAP: Final = "overlap"
DISABLED: Final = "disabled"
START_DEADLINE: Final = "start_deadline"
NOT_CREATED: Final = "not_created"

_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Fired:
    """A slot that gets an execution."""

    slot: datetime

    @property
    def until(self) -> datetime:
        return self.slot


@dataclass(frozen=True, slots=True)
class Skipped:
    """A slot that does not run, or all slots of a gap."""

    slot: datetime
    until: datetime
    reason: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """The slots of a schedule after one moment, up to and including another, as seen at `now`."""

    times: CronExpression
    definition: Definition
    after: datetime
    until: datetime
    now: datetime
    grace: timedelta
    fired: Sequence[datetime] = ()  # slots in between that fired before the clock went back, in order

    def decide(self, busy: int | None = None, disabled_by: str | None = None) -> list[Fired | Skipped]:
        """One entry for each slot or gap, oldest first; `busy` is an execution that has not ended."""
        if not self.definition.enabled:
            return list(self._gap(self.until, DISABLED, disabled_by))
        old = min(self.until, self.now - self.grace - _MICROSECOND)  # a slot of exactly the age of the grace is on time
        entries = [*self._missed(old, busy)] if old > self.after else []
        fired = [entry.slot for entry in entries if isinstance(entry, Fired)]
        live = None if busy is None else f"execution {busy}"
        if fired:
            live = live or f"the execution of {shown(fired[-1])}"
        for slot in self.times.slots(max(self.after, old), self.until):
            if slot in self.fired:
                continue
            if self._is_too_late(slot):
                entries.append(Skipped(slot, slot, START_DEADLINE, self._lateness(slot)))
            elif live is not None and not self.definition.allow_overlap:
                entries.append(Skipped(slot, slot, OVERLAP, f"overlaps with {live}"))
            else:
                entries.append(Fired(slot))
                live = live or f"the execution of {shown(slot)}"
        return entries

    def _missed(self, until: datetime, busy: int | None) -> Iterator[Fired | Skipped]:
        """The slots that are older than the grace, as the misfire policy says."""
        newest = self._newest(until, self._misfire_limit())
        before = newest[0] - _MICROSECOND if newest else until
        yield from self._gap(before, MISFIRE, f"misfire policy {self.definition.misfire}")
        for slot in newest:
            if slot in self.fired:
                continue
            elif self._is_too_late(slot):
                yield Skipped(slot, slot, START_DEADLINE, self._lateness(slot))
            elif busy is not None and self._cannot_wait:
                yield Skipped(slot, slot, OVERLAP, f"overlaps with execution {busy}")
            else:
                yield Fired(slot)

    @property
    def _cannot_wait(self) -> bool:
        """Steps wait for each other by their concurrency key; workflows have none."""
        return self.definition.target == "workflow" and not self.definition.allow_overlap

    def _misfire_limit(self) -> int:
        limit = {"skip": 0, "once": 1, "all": self.definition.misfire_limit}[self.definition.misfire]
        return min(limit, 1) if self._cannot_wait else limit

    def _newest(self, until: datetime, limit: int) -> list[datetime]:
        found: list[datetime] = []
        while len(found) < limit and (slot := self.times.latest(until, after=self.after)) is not None:
            found.insert(0, slot)
            until = slot - _MICROSECOND
        return found

    def _gap(self, until: datetime, reason: str, detail: str | None) -> Iterator[Skipped]:
        """All slots up to a moment as one entry, or several around slots that fired; none if there is no slot."""
        if until <= self.after:
            return
        edges = [self.after, *(slot for slot in self.fired if slot <= until), until + _MICROSECOND]
        for after, before in pairwise(edges):
            last = self.times.latest(before - _MICROSECOND, after=after)
            first = None if last is None else self.times.after(after)
            if first is not None and last is not None:
                yield Skipped(first, last, reason, detail)

    def _is_too_late(self, slot: datetime) -> bool:
        deadline = self.definition.start_deadline  # it counts from the moment to which jitter delays the step
        return deadline is not None and (self.now - slot).total_seconds() > deadline + self.definition.jitter

    def _lateness(self, slot: datetime) -> str:
        late = (self.now - slot).total_seconds()
        return f"{late:g} s late, start_deadline is {self.definition.start_deadline:g} s"


def shown(moment: datetime) -> str:
    """A slot in text.

    >>> from datetime import UTC
    >>> shown(datetime(2026, 1, 1, 2, 30, tzinfo=UTC))
    '2026-01-01T02:30:00Z'
    """
    return moment.isoformat().replace("+00:00", "Z")
