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
from bench.peers.peer import DATABASE, LEDGER, Peer


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
    for name, value, detail in MEASURES[work](peer, sizes):
        _say(peer, name, value, unit_of(work), f"{detail}; {peer.settings}")


def _end_with_our_owner() -> None:
    """Workers have process groups of their own, so nobody but us would end them."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _say(peer: Peer, name: str, value: float | None, unit: str, detail: str) -> None:
    print(Measured(name, DATABASE, peer.system, value, unit, detail).as_json(), flush=True)


Figures = Iterator[tuple[str, float, str]]


def no_op(peer: Peer, sizes: Sizes) -> Figures:
    _fill(peer, sizes.jobs)
    with _working(peer) as workers:
        yield NO_OP, *_rate_of(workers, sizes.jobs, sizes)


def one_by_one(peer: Peer, sizes: Sizes) -> Figures:
    peer.enqueue()
    started, count = time.perf_counter(), 0
    while count < sizes.singles and time.perf_counter() - started < sizes.seconds:
        peer.enqueue()
        count += 1
    yield ONE_BY_ONE, count / (time.perf_counter() - started), f"{count:,} from one producer, no worker running"


def in_bulk(peer: Peer, sizes: Sizes) -> Figures:
    peer.enqueue()
    started = time.perf_counter()
    peer.enqueue_many(sizes.bulk)
    yield IN_BULK, sizes.bulk / (time.perf_counter() - started), f"{sizes.bulk:,} in one call, no worker running"


def chains(peer: Peer, sizes: Sizes) -> Figures:
    peer.start_chains(sizes.chains, sizes.length)
    with _working(peer) as workers:
        value, detail = _rate_of(workers, sizes.chains * sizes.length, sizes)
    yield CHAINS, value, f"{sizes.chains:,} chains of {sizes.length} steps; {detail}"


def fan_out(peer: Peer, sizes: Sizes) -> Figures:
    with _working(peer) as workers:
        _warm_up(peer, workers)
        before = LEDGER.count()
        started = time.monotonic()
        peer.fan_out(sizes.children)
        if not workers.have_run(before + sizes.children + 1, sizes.seconds):
            done = LEDGER.count() - before
            raise RuntimeError(f"{done:,} of {sizes.children:,} children and the join ran within {sizes.seconds:.0f} s")
        took = LEDGER.moments()[-1] - started
    yield FAN_OUT, sizes.children / took, f"{sizes.children:,} children; {took:.2f} s from the call to the join"


def pick_up(peer: Peer, sizes: Sizes) -> Figures:
    waited: list[float] = []
    with _working(peer) as workers:
        _warm_up(peer, workers)
        begun = time.monotonic()
        while len(waited) < sizes.pick_ups and time.monotonic() - begun < sizes.seconds:
            idle_for_a_while()
            known, started = LEDGER.count(), time.monotonic()
            peer.enqueue()
            if not workers.have_run(known + 1, sizes.seconds, pause=0.001):
                raise RuntimeError(f"a job was not picked up within {sizes.seconds:.0f} s")
            waited.append(LEDGER.moments()[-1] - started)
    for name, value in percentiles(waited):
        yield name, value, f"{len(waited)} jobs, from the call that enqueues to the start of the job"


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


def _rate_of(workers: Workers, count: int, sizes: Sizes) -> tuple[float, str]:
    done = workers.have_run(count, sizes.seconds)
    moments = LEDGER.moments()
    cut = "" if done else f", cut off after {sizes.seconds:.0f} s"
    return rate(moments), f"{len(moments):,} of {count:,} that waited when the worker started{cut}"


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

    def have_run(self, count: int, seconds: float, pause: float = 0.02) -> bool:
        """Whether so many jobs have run before the time was up."""
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
