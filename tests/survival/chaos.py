"""Chaos: several `stepwell up` that are killed, and suspended beyond their lease, while steps of every kind arrive.

    $ python -m tests.survival.chaos --database postgres --seconds 300 --lease 2

prints how long steps of killed workers waited for their next run. `test_chaos` runs a short one.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from stepwell import DatabaseBusy, NewStep
from stepwell.model.states import UNFINISHED
from tests.databases import fresh_postgres_schema
from tests.survival.support import Cluster, WorkerProcess

PROCESSES = 3
EXECUTORS = ("process", "thread", "async")
STRIKES_PER_LEASE = 1.0
BATCHES_PER_SECOND = 5.0
BATCHES_PER_BURST = 5
BURST = 300  # steps that take no time: they are claimed ahead and prefetched for slots


@dataclass(frozen=True)
class Interrupted:
    """A run that a kill ended."""

    label: str
    token: int
    killed_at: float


class Chaos:
    """One run: `strike` and `feed` until `finish`, then `check`."""

    def __init__(self, cluster: Cluster, seed: int, lease: float, *, kills_only: bool = False) -> None:
        self.cluster, self.lease = cluster, lease
        self._rng = random.Random(seed)
        self._kills_only = kills_only
        self._suspended: dict[WorkerProcess, tuple[float, set[int]]] = {}  # until when, and which processes
        self._batches = 0
        self.interrupted: list[Interrupted] = []
        self.strikes: Counter[str] = Counter()
        self.refused_batches = 0
        cluster.app.limits.set("total", maximum=100)
        self._up = [self._start(executor) for executor in EXECUTORS[:PROCESSES]]

    def _start(self, executor: str) -> WorkerProcess:
        variables = {
            "STEPWELL_REAPER_ROUND_SECONDS": str(self.lease / 5),
            "STEPWELL_REAPER_RESCUES": "1000",  # no step is poison here, however often it was hit
        }
        started = self.cluster.start("up", slots=4, executor=executor, lease=self.lease, environment=variables)
        started.executor = executor  # type: ignore[attr-defined]
        return started

    # do -------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Chaos for some time, at random moments."""
        end = time.monotonic() + seconds
        feed_at = strike_at = time.monotonic()
        while (now := time.monotonic()) < end:
            if now >= feed_at:
                self.feed()
                feed_at = now + self._rng.expovariate(BATCHES_PER_SECOND)
            if now >= strike_at:
                self.strike()
                strike_at = now + self._rng.expovariate(STRIKES_PER_LEASE / self.lease)
            self._resume(now)
            time.sleep(0.01)

    def feed(self) -> None:
        """Some steps: alone, with a key, in a tree, with stages that create children, and bursts of short ones."""
        self._batches += 1
        name, rng = f"b{self._batches}", self._rng
        act = {"behaviour": "sleep", "seconds": rng.uniform(0.0, 0.1)}
        root = NewStep(action="act", label=f"{name} root", arguments=act, max_retries=0)
        drafts = [
            NewStep(
                action="act",
                label=f"{name} alone",
                arguments={"behaviour": "sleep", "seconds": rng.uniform(0.2, 1.0)},
                max_retries=0,
            ),
            NewStep(action="act", label=f"{name} keyed", concurrency_key=rng.choice("ab"), max_retries=0),
            NewStep(action="three_stages", label=f"{name} staged", max_retries=0),
            root,
            *(
                NewStep(action="act", label=f"{name} leaf {leaf}", parent=root, index=1 + leaf // 2, max_retries=0)
                for leaf in range(4)
            ),
        ]
        if self._batches % BATCHES_PER_BURST == 0:
            drafts += [NewStep(action="act", label=f"{name} short {number}", max_retries=0) for number in range(BURST)]
        try:
            self.cluster.app.enqueue_many(drafts)
        except DatabaseBusy:  # a suspended process holds SQLite's write lock: none of them was accepted
            self.refused_batches += 1

    def strike(self) -> None:
        """Kill a process and start another, or suspend it (or all of it) until its lease is over."""
        free = [process for process in self._up if process not in self._suspended]
        if len(free) < 2:
            return
        target = self._rng.choice(free)
        if self._kills_only or self._rng.random() < 0.5:
            self.strikes["killed"] += 1
            self._kill(target)
            return
        whole = self._rng.random() < 0.5
        self.strikes["suspended with its slots" if whole else "suspended"] += 1
        pids = {target.pid, *(target.descendant_pids() if whole else ())}
        _signal(pids, signal.SIGSTOP)
        self._suspended[target] = (time.monotonic() + self._rng.uniform(1.1, 2.0) * self.lease, pids)

    def _kill(self, target: WorkerProcess) -> None:
        target.descendant_pids()
        target.process.kill()
        killed_at = time.monotonic()
        target.process.wait()
        marker = f":{target.pid}:"
        for step in self.cluster.app.steps(limit=1_000, state="Running"):
            if step.lease_worker is not None and marker in step.lease_worker:
                self.interrupted.append(Interrupted(str(step.label), step.lease_token, killed_at))
        self._up[self._up.index(target)] = self._start(target.executor)  # type: ignore[attr-defined]

    def _resume(self, now: float) -> None:
        for target, (until, pids) in [*self._suspended.items()]:
            if now >= until:
                del self._suspended[target]
                _signal(pids, signal.SIGCONT)

    def finish(self) -> None:
        """Let it come to rest."""
        self._resume(float("inf"))
        self.cluster.until(self._is_done, reap=False, tick=False)
        for process in self._up:
            assert process.stop() == 0

    def _is_done(self) -> bool:
        states = self.cluster.app.stats().states
        return not any(states.get(str(state), 0) for state in UNFINISHED)

    # look -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Everything ended once and well: invariants, and the log of runs against what the database has."""
        self.cluster.check()
        states = self.cluster.app.stats().states
        assert {state for state, count in states.items() if count} == {"Completed"}, states
        tokens: dict[str, int] = {}
        for entry in self.cluster.run_log():
            if entry.event in ("started", "computed", "completes"):
                token = int(entry.facts["token"])
                latest = tokens.get(entry.label, 0)
                assert token >= latest, f"{entry.label}: the run of lease {token} began after that of lease {latest}"
                tokens[entry.label] = token
        ended = Counter(entry.label for entry in self.cluster.run_log() if entry.event in ("ended", "completes"))
        for step in self.cluster.app.steps(limit=1_000_000):
            assert ended[str(step.label)] >= 1, f"{step.label} is Completed, but never ran to its end"
            assert tokens[str(step.label)] == step.lease_token, f"{step.label}: the latest run is not the one on record"

    def waits(self) -> list[float]:
        """Seconds from a kill to the next run of each step that it interrupted."""
        begun: dict[str, list[tuple[int, float]]] = {}
        for entry in self.cluster.run_log():
            if entry.event in ("started", "computed", "completes"):
                begun.setdefault(entry.label, []).append((int(entry.facts["token"]), float(entry.facts["at"])))
        found = []
        for run in self.interrupted:
            later = [at for token, at in begun.get(run.label, ()) if token > run.token]
            if later:  # else it had ended, and only that was not written yet, or it waited for its children
                found.append(min(later) - run.killed_at)
        return sorted(found)


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@contextmanager
def _database(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder}/steps.db"
    else:
        with fresh_postgres_schema() as url:
            yield url


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--lease", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--kills-only", action="store_true", help="suspend nothing")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as name, _database(options.database, Path(name)) as url:
        cluster = Cluster(url, Path(name))
        try:
            chaos = Chaos(cluster, options.seed, options.lease, kills_only=options.kills_only)
            chaos.run(options.seconds)
            chaos.finish()
            waits = chaos.waits()
            print(f"{dict(chaos.strikes)}; batches refused: {chaos.refused_batches}")
            print(f"steps: {cluster.app.stats().states}")
            if waits:
                p50, p99 = waits[len(waits) // 2], waits[min(len(waits) - 1, int(0.99 * len(waits)))]
                print(f"from a kill to the next run, {len(waits)} runs: p50 {p50:.2f} s, p99 {p99:.2f} s")
                print(f"in leases: p50 {p50 / options.lease:.2f}, p99 {p99 / options.lease:.2f}")
            chaos.check()
            print("all invariants hold")
        finally:
            cluster.close()


if __name__ == "__main__":
    main()
