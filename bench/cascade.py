"""Cancelling the root of a big tree: how long until everything below it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.databases import fresh_app, settle
from bench.figures import Figure
from bench.rows import GROUP, behind_the_triggers
from bench.shapes import tree
from bench.timing import stopwatch


def cascade(kind: str, directory: Path, descendants: int) -> Iterator[Figure]:
    """One cancellation by an operator, then ticks until nothing moves."""
    with fresh_app(kind, directory, "cascade") as app:
        with behind_the_triggers(app.database) as loader:
            root = tree(loader, descendants)
        settle(app)
        dispatcher = app.dispatcher([GROUP])
        with stopwatch() as watch:
            app.cancel(root, who="bench")
            reports = dispatcher.run_until_quiet()
        changed = sum(ran.rows for report in reports for ran in report.phases)
        assert changed == descendants, (changed, descendants)
        longest = max(report.milliseconds for report in reports)
        yield Figure(
            f"a cascade over {descendants:,} descendants", kind, descendants / watch.seconds, "rows/s", None,
            f"{watch.seconds:.2f} s in {len(reports)} ticks; the longest took {longest / 1000:.2f} s",
        )  # fmt: skip
