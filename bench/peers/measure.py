"""One kind of work of one peer, measured the same way for all of them; the figures go to stdout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import IO, Final
from urllib.parse import urlsplit

from bench.cpu import descendants_of, postgres_backends, seconds_of
from bench.load import (
    CHAINS,
    FAN_OUT,
    IN_BULK,
    NO_OP,
    ONE_BY_ONE,
    PICK_UP,
    Measured,
    Sizes,
    figure_names,
    idle_for_a_while,
    percentiles,
    rate,
    unit_of,
)
from bench.peers.peer import DATABASE, LEDGER, URL, Peer


def main() -> None:
    """`python -m bench.peers.measure PEER WORK SIZES`, inside the peer's virtual environment."""
    name, work, sizes_as_json = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{name} hung, and was ended"))
    threading.Thread(target=_end_with_our_owner, daemon=True).start()
    sizes = Sizes(**json.loads(sizes_as_json))
    # Never run as a program itself: jobs are known by the name of their module, here and in the workers.
    peer: Peer = import_module(f"bench.peers.{name}").PEER
    if reason := peer.cannot.get(work):
        for name in figure_names(work):
            _say(peer, name, None, unit_of(work), reason)
        return
    peer.prepare()
    for name, value, detail, cpu in MEASURES[work](peer, sizes):
        _say(peer, name, value, unit_of(work), f"{detail}; {peer.settings}", cpu)


def _end_with_our_owner() -> None:
    """Workers have process groups of their own, so only we would end them."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _say(peer: Peer, name: str, value: float | None, unit: str, detail: str, cpu: float | None = None) -> None:
    print(Measured(name, DATABASE, peer.system, value, unit, detail, cpu).as_json(), flush=True)


Figures = Iterator[tuple[str, float, str, float]]


class Cpu:
    """Microseconds of CPU for each job since it was made: of these processes and of PostgreSQL's for this database.

    Not of a Redis server, nor of what PostgreSQL does in the background for all of its databases.
    """

    def __init__(self, *roots: int) -> None:
        self._roots = roots
        self._began = self._seconds()

    def _seconds(self) -> float:
        database = urlsplit(URL).path.removeprefix("/")
        backends = postgres_backends(database) if DATABASE == "postgres" else set[int]()
        return seconds_of(descendants_of(*self._roots) | backends)

    def per_job(self, jobs: int) -> float:
        return 1e6 * (self._seconds() - self._began) / jobs


def no_op(peer: Peer, sizes: Sizes) -> Figures:
    _fill(peer, sizes.jobs)
    with _working(peer) as workers:
        yield NO_OP, *_rate_of(workers, sizes.jobs, sizes)


def one_by_one(peer: Peer, sizes: Sizes) -> Figures:
    peer.enqueue()
    cpu = Cpu(os.getpid())
    started, count = time.perf_counter(), 0
    while count < sizes.singles and time.perf_counter() - started < sizes.seconds:
        peer.enqueue()
        count += 1
    value = count / (time.perf_counter() - started)
    yield ONE_BY_ONE, value, f"{count:,} from one producer, no worker running", cpu.per_job(count)


def in_bulk(peer: Peer, sizes: Sizes) -> Figures:
    peer.enqueue()
    cpu = Cpu(os.getpid())
    started = time.perf_counter()
    peer.enqueue_many(sizes.bulk)
    value = sizes.bulk / (time.perf_counter() - started)
    yield IN_BULK, value, f"{sizes.bulk:,} in one call, no worker running", cpu.per_job(sizes.bulk)


def chains(peer: Peer, sizes: Sizes) -> Figures:
    peer.start_chains(sizes.chains, sizes.length)
    with _working(peer) as workers:
        value, detail, cpu = _rate_of(workers, sizes.chains * sizes.length, sizes)
    yield CHAINS, value, f"{sizes.chains:,} chains of {sizes.length} steps; {detail}", cpu


def fan_out(peer: Peer, sizes: Sizes) -> Figures:
    with _working(peer) as workers:
        _warm_up(peer, workers)
        before, cpu = LEDGER.count(), Cpu(*workers.pids)
        started = time.monotonic()
        peer.fan_out(sizes.children)
        if not workers.have_run(before + sizes.children + 1, sizes.seconds):
            done = LEDGER.count() - before
            raise RuntimeError(f"{done:,} of {sizes.children:,} children and the join ran within {sizes.seconds:.0f} s")
        each = cpu.per_job(sizes.children)
        took = LEDGER.moments()[-1] - started
    yield FAN_OUT, sizes.children / took, f"{sizes.children:,} children; {took:.2f} s from the call to the join", each


def pick_up(peer: Peer, sizes: Sizes) -> Figures:
    waited: list[float] = []
    with _working(peer) as workers:
        _warm_up(peer, workers)
        cpu, begun = Cpu(*workers.pids), time.monotonic()
        while len(waited) < sizes.pick_ups and time.monotonic() - begun < sizes.seconds:
            idle_for_a_while()
            known, started = LEDGER.count(), time.monotonic()
            peer.enqueue()
            if not workers.have_run(known + 1, sizes.seconds, pause=0.001):
                raise RuntimeError(f"a job was not picked up within {sizes.seconds:.0f} s")
            waited.append(LEDGER.moments()[-1] - started)
        each = cpu.per_job(len(waited))
    for name, value in percentiles(waited):
        yield name, value, f"{len(waited)} jobs, from the call that enqueues to the start of the job", each


MEASURES: Final[dict[str, Callable[[Peer, Sizes], Figures]]] = {
    NO_OP: no_op,
    ONE_BY_ONE: one_by_one,
    IN_BULK: in_bulk,
    CHAINS: chains,
    FAN_OUT: fan_out,
    PICK_UP: pick_up,
}


def _fill(peer: Peer, count: int) -> None:
    if IN_BULK in peer.cannot:
        for _ in range(count):
            peer.enqueue()
    else:
        peer.enqueue_many(count)


def _rate_of(workers: Workers, count: int, sizes: Sizes) -> tuple[float, str, float]:
    """Jobs per second, how many, and the CPU time of each: from the first tenth on, when every process has started."""
    workers.have_run(count // 10, sizes.seconds)
    cpu, before = Cpu(*workers.pids), LEDGER.count()
    done = workers.have_run(count, sizes.seconds)
    each = cpu.per_job(max(LEDGER.count() - before, 1))
    moments = LEDGER.moments()
    cut = "" if done else f", cut off after {sizes.seconds:.0f} s"
    return rate(moments), f"{len(moments):,} of {count:,} that waited when the worker started{cut}", each


def _warm_up(peer: Peer, workers: Workers) -> None:
    known = LEDGER.count()
    for done in range(1, 4):
        peer.enqueue()
        if not workers.have_run(known + done, 30):
            raise RuntimeError("the worker did not run its first jobs within 30 s")


class Workers:
    """The workers of a peer, while they run."""

    def __init__(self, peer: Peer, log: IO[bytes]) -> None:
        self._log = log
        self._running = [
            subprocess.Popen(list(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            for command in peer.workers()
        ]

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._running]

    def have_run(self, count: int, seconds: float, pause: float = 0.02) -> bool:
        """Whether this many jobs have run before the time was up."""
        deadline = time.monotonic() + seconds
        while LEDGER.count() < count:
            if time.monotonic() > deadline:
                return False
            self._must_live()
            time.sleep(pause)
        return True

    def _must_live(self) -> None:
        for worker in self._running:
            if worker.poll() is not None:
                self._log.seek(0)
                said = self._log.read().decode(errors="replace").strip().splitlines()
                raise RuntimeError(f"its worker ended with {worker.returncode}: {said[-1] if said else 'not a word'}")

    def end(self) -> None:
        """Ask, so that they can take leave of their children, but not for long: some want half a minute."""
        for worker in self._running:
            worker.terminate()
        deadline = time.monotonic() + 2
        for worker in self._running:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(max(0.0, deadline - time.monotonic()))
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


@contextmanager
def _working(peer: Peer) -> Iterator[Workers]:
    with tempfile.TemporaryFile() as log:
        workers = Workers(peer, log)
        try:
            yield workers
        finally:
            workers.end()


if __name__ == "__main__":
    main()
