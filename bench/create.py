"""Bulk create against writing the same rows with nothing around it: a bare COPY, or a bare executemany."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.bare import TABLES, Bare, BarePostgres, BareSqlite
from bench.databases import fresh_app, settle
from bench.figures import Figure
from bench.timing import compare, stopwatch
from stepwell import NewStep


def bulk_create(kind: str, directory: Path, steps: int, repetitions: int) -> Iterator[Figure]:
    """`app.enqueue_many` of this many small steps per call, beside two bare writers of rows that are ready."""
    with fresh_app(kind, directory, "create") as app:
        bare: Bare = BarePostgres(app) if kind == "postgres" else BareSqlite(app, f"{directory}/bare.db")
        with closing(bare):
            settle(app)

            def create() -> float:
                drafts = [NewStep(action="fetch", arguments={"symbol": "BTC", "number": n}) for n in range(steps)]
                with stopwatch() as watch:
                    app.enqueue_many(drafts)
                return watch.seconds

            times = compare([create, bare.side(steps, *TABLES), bare.side(steps, "steps")], repetitions)
        rates = [steps / times.median(side) for side in range(3)]
        yield Figure(
            "bulk create", kind, rates[0], "steps/s", None, f"{steps:,} steps per call, median of {repetitions} calls"
        )
        yield Figure(
            f"bulk create / a bare {bare.verb} of all its rows", kind, times.ratio(1, 0), "ratio", ">= 0.3",
            f"{rates[0]:,.0f} / {rates[1]:,.0f} steps/s; {times.spread(1, 0)}; the bare side writes ready rows to "
            f"{', '.join(TABLES)} in one transaction: same columns and indexes, no triggers",
        )  # fmt: skip
        yield Figure(
            f"bulk create / a bare {bare.verb} of the steps rows alone", kind, times.ratio(2, 0), "ratio", ">= 0.3",
            f"{rates[0]:,.0f} / {rates[2]:,.0f} steps/s; {times.spread(2, 0)}; the bare side has no history, no agenda",
        )  # fmt: skip
