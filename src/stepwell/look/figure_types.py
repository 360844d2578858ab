"""What the figures are: frozen records."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Steps by state. The nine states are disjoint, and their sum is the number of all steps.

    The other three are parts of them, and are not disjoint from each other: `child_pending` and `throttled` are parts
    of Pending, `child_running` is a part of Running. A child is a step with a parent.
    """

    states: dict[str, int]  # all nine, in the order of `State`
    child_pending: int
    child_running: int
    throttled: int

    @property
    def steps(self) -> int:
        return sum(self.states.values())


class DispatchedTotals(msgspec.Struct, frozen=True):
    """How many steps are Dispatched, from two sources that must agree; and whether any counter is below zero."""

    counted: int
    on_the_agenda: int
    is_negative: bool

    @property
    def is_wrong(self) -> bool:
        return self.is_negative or self.counted != self.on_the_agenda


class ClassFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The unfinished steps of an action. `child_running` is a part of `running`, `throttled` of `pending`.

    Of one host: what runs there, and what is Pending or Dispatched in the lanes that its live workers serve.
    """

    action: str
    running: int
    child_running: int
    dispatched: int
    pending: int
    throttled: int

    @property
    def is_active(self) -> bool:
        return self.running > 0 or self.dispatched > 0


class HostFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A host. `running` and `child_running` (a part of it) are the steps that it runs.

    `pending`, `throttled` (a part of it) and `dispatched` are the steps that it could run: those in the lanes that its
    live workers serve. A lane that several hosts serve counts for each of them, so these must not be added up.

    `slots_in_use` are the runs that occupy a slot of a live worker: a parent that only waits for its children does not.
    """

    host: str
    alive: bool
    workers: int
    slots: int
    slots_in_use: int
    last_seen: datetime | None
    running: int
    child_running: int
    dispatched: int
    pending: int
    throttled: int


class GroupFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a group: queued (Pending or Dispatched), or `running` their own code."""

    group: str
    pending: int
    dispatched: int
    running: int

    @property
    def queued(self) -> int:
        return self.pending + self.dispatched


class Minute(msgspec.Struct, frozen=True, kw_only=True):
    """What happened within a minute. Waits and run times are in seconds; None: there were none."""

    at: datetime
    created: int
    started: int
    returned: int  # to Pending: retries, throttled, rescued, revived
    ended: dict[str, int]  # by terminal state, all six
    wait_p50: float | None
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None

    @property
    def throughput(self) -> int:
        """How many steps ended by a run or by hand: Completed, Skipped, Failed or Stopped."""
        return sum(self.ended[state] for state in ("Completed", "Skipped", "Failed", "Stopped"))


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Failures that are alike, and what is behind them: steps that ended only because these did.

    `newest_step` is the one that failed last; `action`, `reason` and `error` are its.
    """

    fingerprint: str
    action: str
    reason: str | None
    error: str | None
    steps: int
    behind: int
    newest_step: int
    first_at: datetime
    last_at: datetime


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """At the pace of the last minutes, if no step is added. `seconds` is None if none has ended, or while
    dispatching is paused."""

    waiting: int  # Pending and Dispatched
    per_minute: float
    seconds: float | None
