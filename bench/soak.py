"""`python -m bench.soak`: many steps through a table that retention keeps small. Size and drain rate have to stay flat.

Steps are created in bulk and drained by a worker with threads, slice by slice, while retention works beside it: it
deletes what is older than the newest KEEP steps. The next slice is created when the table has at most one slice more
than that: the time which that takes is printed as "waited". Each line is one slice: how fast it was drained with
retention beside it, how many steps are left, and how large the database is. "loop" is the time that a fixed loop of
Python takes before the slice: where it doubles, the machine is busy with other work, and the drain rate says little.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.databases import KINDS, fresh_app, settings_of, use_postgres
from bench.peers.servers import scratch
from stepwell import Stepwell
from stepwell.define.definition import JobDefinition
from stepwell.store.engine import retention as verbs

STEPS: Final = 2_000_000
KEEP: Final = 100_000
SLICES: Final = 20
WORKER_SLOTS: Final = 8
_SIZE: Final = {
    "sqlite": "SELECT page_count * page_size AS size FROM pragma_page_count, pragma_page_size",
    "postgres": "SELECT sum(pg_total_relation_size(c.oid)) AS size FROM pg_class c "
    "WHERE c.relkind = 'r' AND c.relnamespace = CAST(current_schema() AS regnamespace)",
}


class Keeper:
    """Deletes all but the newest steps, in a thread, until it is told to stop."""

    def __init__(self, app: Stepwell, keep: int) -> None:
        self._app, self._keep = app, keep
        self.deleted, self.seconds = 0, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        app.retention.options = replace(app.retention.options, key_days=0.0)

    def __enter__(self) -> Keeper:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.2):
            self.prune()

    def prune(self) -> None:
        def oldest_kept(tx: object) -> verbs.Created | None:
            newest = verbs.newest_id(tx) or 0  # type: ignore[arg-type]
            return verbs.step_from(tx, id=newest - self._keep + 1)  # type: ignore[arg-type]

        found = self._app.database.read(oldest_kept)
        if found is None:
            return
        started = time.perf_counter()
        self.deleted += self._app.retention.prune(before=found.created_at).steps
        self.seconds += time.perf_counter() - started


def soak(kind: str, steps: int, keep: int) -> None:
    size = max(1, steps // SLICES)
    with scratch() as directory, fresh_app(kind, Path(directory), "soak") as app:
        no_op: JobDefinition[[], None] = app.job(name="no_op")(_nothing)
        print(f"{kind}: {settings_of(kind)}; {steps:,} steps in slices of {size:,}, kept at {keep:,}")
        print("     steps   drained/s   waited   in steps     size   deleted   deleted/s     loop", flush=True)
        with app.running(executor="thread", slots=WORKER_SLOTS), Keeper(app, keep) as keeper:
            for done in range(size, steps + 1, size):
                loop = _loop()
                app.enqueue_many([no_op.draft() for _ in range(size)])
                started = time.perf_counter()
                while _one(app, "SELECT count(*) AS n FROM steps_agenda"):
                    time.sleep(0.05)
                rate = size / (time.perf_counter() - started)
                started = time.perf_counter()
                while (left := _one(app, "SELECT count(*) AS n FROM steps")) > keep + size:
                    time.sleep(0.1)
                print(
                    f"{done:10,} {rate:11,.0f} {time.perf_counter() - started:6.1f} s {left:10,} "
                    f"{_one(app, _SIZE[kind]) / 1e6:5,.0f} MB {keeper.deleted:9,} "
                    f"{keeper.deleted / max(keeper.seconds, 1e-9):11,.0f} {loop * 1e3:5.0f} ms",
                    flush=True,
                )
        keeper.prune()
        problems = app.check_invariants() if steps <= 500_000 else []
        left = _one(app, "SELECT count(*) AS n FROM steps")
        print(f"{kind}: {left:,} steps left, {keeper.deleted:,} deleted, {len(problems)} violated invariants")


def _loop() -> float:
    started = time.perf_counter()
    sum(range(10_000_000))
    return time.perf_counter() - started


def _nothing() -> None:
    pass


def _one(app: Stepwell, sql: str) -> int:
    (row,) = app.database.read(lambda tx: tx.fetch(sql, {}))
    return int(next(iter(row.values())))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--database", action="append", choices=KINDS, help="only this one (default: both)")
    parser.add_argument("--postgres", metavar="URL", help="a server to use (default: one is started)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"how many steps (default: {STEPS:,})")
    parser.add_argument("--keep", type=int, default=KEEP, help=f"how many stay in the table (default: {KEEP:,})")
    options = parser.parse_args(arguments)
    use_postgres(options.postgres)
    for kind in options.database or KINDS:
        soak(kind, options.steps, options.keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
