"""How long steps of killed workers waited for their next run, and on what."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tests.survival.support import Cluster

BEGINNINGS = ("started", "computed", "completes")


@dataclass(frozen=True)
class Interrupted:
    """A run that a kill ended. Times are those of the monotonic clock."""

    step_id: int
    label: str
    token: int
    killed_at: float


LOCKED: Final = "a suspended process held SQLite's write lock"
ALONE: Final = "every worker was suspended, killed, or still starting"


@dataclass(frozen=True)
class Blocked:
    """A time in which nothing could begin, whatever Stepwell did."""

    why: str
    since: float
    until: float


@dataclass(frozen=True)
class Wait:
    """From a kill to the next run: until the rescue, from then on, and how much of both was `Blocked`."""

    run: Interrupted
    seconds: float
    until_rescue: float | None  # None: the next claim was no rescue, for example because its end was found written
    blocked: float

    @property
    def own(self) -> float:
        """What Stepwell took."""
        return self.seconds - self.blocked


def waits(cluster: Cluster, interrupted: Iterable[Interrupted], blocked: Sequence[Blocked]) -> list[Wait]:
    """That of each interrupted run that was followed by another, the shortest first."""
    begun: dict[str, list[tuple[int, float]]] = {}
    for entry in cluster.run_log():
        if entry.event in BEGINNINGS:
            begun.setdefault(entry.label, []).append((int(entry.facts["token"]), float(entry.facts["at"])))
    found = []
    for run in interrupted:
        later = [at for token, at in begun.get(run.label, ()) if token > run.token]
        if later:  # else it had ended, and only that was not written yet, or it waited for its children
            next_at = min(later)
            rescued = [at for at in _rescues(cluster, run.step_id) if run.killed_at <= at <= next_at]
            until_rescue = rescued[0] - run.killed_at if rescued else None
            found.append(Wait(run, next_at - run.killed_at, until_rescue, _overlap(run.killed_at, next_at, blocked)))
    return sorted(found, key=lambda wait: wait.seconds)


def _overlap(since: float, until: float, blocked: Sequence[Blocked]) -> float:
    """How much of a time was blocked, for whatever reasons."""
    total = 0.0
    for each in sorted(blocked, key=lambda each: each.since):
        begin = max(since, each.since)
        if (end := min(until, each.until)) > begin:
            total, since = total + end - begin, end
    return total


def _rescues(cluster: Cluster, step_id: int) -> list[float]:
    return [_monotonic(change.at) for change in cluster.app.history(step_id) if change.reason == "rescued"]


def _monotonic(at: datetime) -> float:
    return at.timestamp() - time.time() + time.monotonic()


def report(
    cluster: Cluster, found: Sequence[Wait], blocked: Sequence[Blocked], lease: float, slowest: int
) -> Iterator[str]:
    """Lines for people."""
    yield f"from a kill to the next run: {_figures([wait.seconds for wait in found], lease)}"
    for why in (LOCKED, ALONE):
        if times := [each for each in blocked if each.why == why]:
            hit = sum(_overlap(wait.run.killed_at, wait.run.killed_at + wait.seconds, times) > 0 for wait in found)
            total = sum(each.until - each.since for each in times)
            yield f"  {why}: {len(times)} times, {total:.1f} s in all; {hit} of these runs waited then"
    if blocked:
        yield f"  without these times: {_figures([wait.own for wait in found], lease)}"
    phases = [(wait.until_rescue, wait.seconds - wait.until_rescue) for wait in found if wait.until_rescue is not None]
    yield f"  from the kill to the rescue: {_figures([before for before, _ in phases], lease)}"
    yield f"  from there to the next run: {_figures([after for _, after in phases], lease)}"
    for wait in [*reversed(found)][:slowest]:
        split = "" if wait.until_rescue is None else f", rescued after {wait.until_rescue:.2f} s"
        yield f"step {wait.run.step_id} ({wait.run.label}): {wait.seconds:.2f} s{split}, blocked {wait.blocked:.2f} s"
        for change in cluster.app.history(wait.run.step_id):
            after = _monotonic(change.at) - wait.run.killed_at
            yield f"  {after:+8.2f} s {change.to_state} {change.reason or ''} {change.actor}"


def _figures(seconds: Sequence[float], lease: float) -> str:
    if not seconds:
        return "no runs"
    ordered = sorted(seconds)
    named = {"p50": _percentile(ordered, 0.5), "p99": _percentile(ordered, 0.99), "max": ordered[-1]}
    shown = ", ".join(f"{name} {value:.2f} s ({value / lease:.2f} leases)" for name, value in named.items())
    return f"{len(ordered)} runs, {shown}"


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
