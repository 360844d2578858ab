"""`python -m bench.limit`: what the databases allow, with the least SQL that makes the same changes of state.

Pending → Dispatched → Running → Completed, each with its history row, on the same durability: a dispatcher's
transaction and a worker's (it finishes one batch and claims the next) for every 128 steps.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from bench.databases import KINDS, use_postgres
from bench.limit_stores import BATCH, Postgres, Row, Sqlite, Store
from bench.load import (
    CHAINS,
    FAN_OUT,
    FULL,
    IN_BULK,
    NO_OP,
    ONE_BY_ONE,
    PICK_UP,
    QUICK,
    WORK,
    Measured,
    Sizes,
    idle_for_a_while,
    percentiles,
    unit_of,
)
from bench.peers.servers import fresh, scratch
from bench.timing import WARM_UP, stopwatch

SYSTEM: Final = "the limit"
Figures = Iterator[tuple[str, float, str]]
Open = Callable[[], Store]


def measure(database: str, sizes: Sizes, work: Sequence[str] = WORK) -> Iterator[Measured]:
    """Every figure of one database."""
    for kind in work:
        with scratch() as directory, fresh(database, Path(directory)) as place:

            def another(place: str = place) -> Store:
                return Sqlite(place) if database == "sqlite" else Postgres(place)

            with closing(another()) as store:
                store.create()
                for name, value, detail in MEASURES[kind](store, another, sizes):
                    yield Measured(name, database, SYSTEM, value, unit_of(kind), detail)


def no_op(store: Store, another: Open, sizes: Sizes) -> Figures:
    store.enqueue_many([Row(number) for number in range(sizes.jobs)])
    with stopwatch() as watch:
        _work_off(store, sizes.jobs)
    yield NO_OP, sizes.jobs / watch.seconds, f"{sizes.jobs:,} in batches of {BATCH}, two commits each"


def one_by_one(store: Store, another: Open, sizes: Sizes) -> Figures:
    with stopwatch() as watch:
        for number in range(sizes.singles):
            store.enqueue(Row(number))
    yield ONE_BY_ONE, sizes.singles / watch.seconds, f"{sizes.singles:,}, each with its history in a transaction"


def in_bulk(store: Store, another: Open, sizes: Sizes) -> Figures:
    with stopwatch() as watch:
        store.enqueue_many([Row(number) for number in range(sizes.bulk)])
    yield IN_BULK, sizes.bulk / watch.seconds, f"{sizes.bulk:,} steps and their history in one transaction"


def chains(store: Store, another: Open, sizes: Sizes) -> Figures:
    total = sizes.chains * sizes.length
    # Side by side, as they were enqueued: the first of each, the second of each, …
    following = [*range(sizes.chains, total), *[None] * sizes.chains]
    store.enqueue_many([Row(n, blocked=int(n >= sizes.chains), next=after) for n, after in enumerate(following)])
    with stopwatch() as watch:
        _work_off(store, total, linked=True)
    yield CHAINS, total / watch.seconds, f"{sizes.chains:,} chains of {sizes.length} steps, in batches of {BATCH}"


def fan_out(store: Store, another: Open, sizes: Sizes) -> Figures:
    parent = 0
    with stopwatch() as watch:
        store.enqueue(Row(parent, children=sizes.children))
        store.dispatch()
        assert store.turn([], linked=True) == [parent]
        store.enqueue_many([Row(number, parent=parent) for number in range(1, sizes.children + 1)])
        # The parent completes in the transaction that ends its last child.
        _work_off(store, sizes.children, linked=True)
    detail = f"{sizes.children:,} children; {watch.seconds:.2f} s from the call to the join"
    yield FAN_OUT, sizes.children / watch.seconds, detail


def pick_up(store: Store, another: Open, sizes: Sizes) -> Figures:
    started: SimpleQueue[float] = SimpleQueue()
    over = threading.Event()

    def worker() -> None:
        with closing(another()) as own:
            finished: list[int] = []
            while not over.is_set():
                own.wait(0.1)
                while own.dispatch():
                    finished = own.turn(finished, linked=False)
                    started.put(time.monotonic())

    thread = threading.Thread(target=worker)
    thread.start()
    try:
        waited = [_picked_up(store, started, number) for number in range(WARM_UP + sizes.pick_ups)]
    finally:
        over.set()
        thread.join()
    for name, value in percentiles(waited[WARM_UP:]):
        yield name, value, f"{sizes.pick_ups} jobs, from the call that enqueues to the start of the job"


MEASURES: Final[dict[str, Callable[[Store, Open, Sizes], Figures]]] = {
    NO_OP: no_op,
    ONE_BY_ONE: one_by_one,
    IN_BULK: in_bulk,
    CHAINS: chains,
    FAN_OUT: fan_out,
    PICK_UP: pick_up,
}


def _work_off(store: Store, total: int, linked: bool = False) -> None:
    """Until all are completed; there is nothing to do for a job but to be called."""
    done, finished = 0, list[int]()
    while done < total:
        moved = store.dispatch() + len(finished)
        finished = store.turn(finished, linked)
        if not moved and not finished:
            raise RuntimeError(f"{total - done:,} of {total:,} steps never became ready")
        for _ in finished:
            _job()
        done += len(finished)
    store.turn(finished, linked)


def _job() -> None:
    pass


def _picked_up(store: Store, started: SimpleQueue[float], number: int) -> float:
    idle_for_a_while()
    called = time.monotonic()
    store.enqueue(Row(number))
    return started.get(timeout=30) - called


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.limit", description=__doc__)
    parser.add_argument("--database", action="append", choices=KINDS, help="only this one (default: both)")
    parser.add_argument("--postgres", metavar="URL", help="a server to use (default: one is started)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, says nothing about speed")
    options = parser.parse_args(arguments)
    use_postgres(options.postgres)
    for database in options.database or KINDS:
        for figure in measure(database, QUICK if options.quick else FULL):
            print(figure.as_json(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
