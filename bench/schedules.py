"""What schedules cost: an idle poll beside many schedules, and a burst of slots that are due in the same minute.

python -m bench.schedules [--database sqlite|postgres]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.databases import KINDS, fresh_app, settle, use_postgres
from stepwell import Stepwell
from stepwell.schedule.definition import Definition
from stepwell.schedule.editing import Author
from stepwell.store import Transaction
from stepwell.testing import ManualClock

SCHEDULES = 10_000
BURST = 5_000
POLLS = 200
START = datetime(2026, 1, 1, tzinfo=UTC)


def fill(app: Stepwell, count: int, expression: str, name: str) -> None:
    """Register many schedules in one transaction."""
    definition = Definition(expression=expression, handler="report")

    def work(tx: Transaction) -> None:
        for number in range(count):
            app.schedule_engine.editor.create(tx, f"{name}{number}", definition, Author("bench", None, START))

    app.database.transact(work)


def idle_milliseconds(app: Stepwell) -> tuple[float, float]:
    """The median of a round that finds nothing to do: real time, and this process's own CPU."""
    scheduler = app.schedules.scheduler()
    scheduler.round()
    taken = []
    for _ in range(POLLS):
        started, used = time.perf_counter(), time.process_time()
        assert scheduler.round().changed == 0
        taken.append((time.perf_counter() - started, time.process_time() - used))
    real, own = (statistics.median(each) for each in zip(*taken, strict=True))
    return 1000 * real, 1000 * own


def measure(kind: str, app: Stepwell, clock: ManualClock) -> None:
    commits = 0

    def count(moment: str, _: object) -> None:
        nonlocal commits
        commits += moment == "after"

    app.job(name="report")(lambda: None)
    fill(app, 10, "0 0 1 1 *", "few")
    settle(app)
    few = idle_milliseconds(app)
    fill(app, SCHEDULES, "H H 1 1 *", "many")
    settle(app)
    many = idle_milliseconds(app)
    print(
        f"{kind}: idle poll with 10 schedules {few[0]:.2f} ms ({few[1]:.2f} ms own CPU), "
        f"with {SCHEDULES:,} {many[0]:.2f} ms ({many[1]:.2f} ms own CPU), median of {POLLS}"
    )
    fill(app, BURST, "0 12 1 1 *", "burst")
    settle(app)
    clock.move_to(START + timedelta(hours=12))
    app.schedules.scheduler().round()  # the few of the others that are due
    taken = []
    for year in range(3):
        clock.move_to(datetime(2027 + year, 1, 1, 11, 59, 30, tzinfo=UTC))
        app.schedules.scheduler().round()
        settle(app)
        clock.move_to(datetime(2027 + year, 1, 1, 12, 0, 1, tzinfo=UTC))
        commits = 0
        app.database.watch = count
        started, used = time.perf_counter(), time.process_time()
        fired = app.schedules.scheduler().round().fired
        taken.append((time.perf_counter() - started, time.process_time() - used, fired, commits))
        app.database.watch = None
    real, own, fired, transactions = sorted(taken)[1]
    print(
        f"{kind}: {fired:,} slots of one minute in {real:.2f} s ({own:.2f} s own CPU), "
        f"{transactions} transactions, {fired / real:,.0f} slots/s, median of {len(taken)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=KINDS, action="append")
    options = parser.parse_args()
    for kind in options.database or KINDS:
        if kind == "postgres":
            use_postgres(None)
        clock = ManualClock(START)
        with (
            tempfile.TemporaryDirectory() as directory,
            fresh_app(kind, Path(directory), "schedules") as made,
            made.bound_to(made.database.url, clock) as app,
        ):
            measure(kind, app, clock)


if __name__ == "__main__":
    main()
