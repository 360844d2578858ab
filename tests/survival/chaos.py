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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from stepwell import DatabaseBusy, NewStep
from stepwell.model.states import UNFINISHED
from tests.databases import fresh_postgres_schema
from tests.survival.chaos_waits import ALONE, BEGINNINGS, LOCKED, Blocked, Interrupted, report, waits
from tests.survival.support import Cluster, WorkerProcess, is_alive, is_suspended

PROCESSES = 3
EXECUTORS = ("process", "thread", "async")
STRIKES_PER_LEASE = 1.0
BATCHES_PER_SECOND = 5.0
BATCHES_PER_BURST = 5
LOOK_SECONDS = 0.1
BURST = 300  # steps that take no time: they are claimed ahead and prefetched for slots


class Chaos:
    """One run: `strike` and `feed` until `finish`, then `check`."""

    def __init__(self, cluster: Cluster, seed: int, lease: float, *, kills_only: bool = False) -> None:
        self.cluster, self.lease = cluster, lease
        self._rng, self._feeding = random.Random(seed), random.Random(f"{seed} feeding")
        self._kills_only = kills_only
        self._suspended: dict[WorkerProcess, tuple[float, set[int]]] = {}  # until when, and which processes
        self._batches = 0
        self.interrupted: list[Interrupted] = []
        self.blocked: list[Blocked] = []
        self._blocked_since: dict[str | WorkerProcess, float] = {}
        self._registered: set[int] = set()
        self._looked_at = 0.0
        self.strikes: Counter[str] = Counter()
        self.refused_batches = 0
        self._suspensions: list[str] = []
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
        end = strike_at = time.monotonic()
        end += seconds
        with ThreadPoolExecutor(1) as pool:
            feeding = pool.submit(self._feed_until, end)
            while (now := time.monotonic()) < end or not feeding.done():
                if strike_at <= now < end:
                    self.strike()
                    strike_at = now + self._rng.expovariate(STRIKES_PER_LEASE / self.lease)
                self._resume(now)
                self._note_workers(now)
                time.sleep(0.01)
            feeding.result()

    def _feed_until(self, end: float) -> None:
        """In a thread of its own: to enqueue may wait for a suspended process, which only `run` continues."""
        while time.monotonic() < end:
            self.feed()
            time.sleep(self._feeding.expovariate(BATCHES_PER_SECOND))

    def feed(self) -> None:
        """Some steps: alone, with a key, in a tree, with stages that create children, and bursts of short ones."""
        self._batches += 1
        name, rng = f"b{self._batches}", self._feeding
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
        self._note_lock(target, pids)
        self._suspended[target] = (time.monotonic() + self._rng.uniform(1.1, 2.0) * self.lease, pids)

    def _note_lock(self, target: WorkerProcess, pids: set[int]) -> None:
        """Whether SQLite's write lock is held by what was suspended: then nobody can write until it continues."""
        while not all(is_suspended(pid) or not is_alive(pid) for pid in pids):
            time.sleep(0.001)
        holder = self.cluster.app.database.lock_holder()
        if holder is not None and holder.pid in pids:
            self._blocked_since[target] = time.monotonic()

    def _note_workers(self, now: float) -> None:
        """Whether there is any worker that could run a step."""
        if now >= self._looked_at + LOOK_SECONDS:
            self._looked_at = now
            self._registered |= {worker.pid for worker in self.cluster.app.workers()}  # some count as dead by now
        if any(process.pid in self._registered for process in self._up if process not in self._suspended):
            self._unblock(ALONE, ALONE)
        else:
            self._blocked_since.setdefault(ALONE, now)

    def _unblock(self, why: str, key: str | WorkerProcess) -> None:
        if (since := self._blocked_since.pop(key, None)) is not None:
            self.blocked.append(Blocked(why, since, time.monotonic()))

    def _kill(self, target: WorkerProcess) -> None:
        target.descendant_pids()
        target.process.kill()
        killed_at = time.monotonic()
        target.process.wait()
        marker = f":{target.pid}:"
        for step in self.cluster.app.steps(limit=1_000, state="Running"):
            if step.lease_worker is not None and marker in step.lease_worker:
                self.interrupted.append(Interrupted(step.id, str(step.label), step.lease_token, killed_at))
        self._up[self._up.index(target)] = self._start(target.executor)  # type: ignore[attr-defined]

    def _resume(self, now: float) -> None:
        for target, (until, pids) in [*self._suspended.items()]:
            if now >= until:
                del self._suspended[target]
                _signal(pids, signal.SIGCONT)
                self._suspensions.append(f"{sorted(pids)} until {time.monotonic():.4f}")
                self._unblock(LOCKED, target)

    def finish(self) -> None:
        """Let it come to rest."""
        self._resume(float("inf"))
        self._unblock(ALONE, ALONE)
        self.cluster.until(self._is_done, reap=False, tick=False)
        for process in self._up:
            # One that was started just now does not handle signals yet.
            self.cluster.until(lambda started=process: "Up: " in started.output, reap=False, tick=False)  # type: ignore[misc]
            assert (code := process.stop()) == 0, f"exit code {code}\n{process.output}"

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
            if entry.event in BEGINNINGS:
                token = int(entry.facts["token"])
                latest = tokens.get(entry.label, 0)
                assert token >= latest, self._order(entry.label, token, latest)
                tokens[entry.label] = token
        ended = Counter(entry.label for entry in self.cluster.run_log() if entry.event in ("ended", "completes"))
        for step in self.cluster.app.steps(limit=1_000_000):
            assert ended[str(step.label)] >= 1, f"{step.label} is Completed, but never ran to its end"
            assert tokens[str(step.label)] == step.lease_token, f"{step.label}: the latest run is not the one on record"

    def _order(self, label: str, token: int, latest: int) -> str:
        seen = [f"{entry.event} {entry.facts}" for entry in self.cluster.run_log() if entry.label == label]
        what = f"{label}: the run of lease {token} began after that of lease {latest}"
        return "\n".join([what, *seen, "suspended:", *self._suspensions])


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
    parser.add_argument("--slowest", type=int, default=0, help="print the history of this many of the longest waits")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as name, _database(options.database, Path(name)) as url:
        cluster = Cluster(url, Path(name))
        try:
            chaos = Chaos(cluster, options.seed, options.lease, kills_only=options.kills_only)
            chaos.run(options.seconds)
            chaos.finish()
            found = waits(cluster, chaos.interrupted, chaos.blocked)
            print(f"{dict(chaos.strikes)}; batches refused: {chaos.refused_batches}")
            print(f"steps: {cluster.app.stats().states}")
            for line in report(cluster, found, chaos.blocked, options.lease, options.slowest):
                print(line)
            chaos.check()
            print("all invariants hold")
        finally:
            cluster.close()


if __name__ == "__main__":
    main()
