"""A round of all ten groups that finds nothing to do."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from bench.counting import counted
from bench.figures import Figure
from bench.timing import stopwatch
from stepwell import Stepwell


def idle(kind: str, app: Stepwell, where: str, repetitions: int) -> Iterator[Figure]:
    """A round of all ten groups that finds nothing to do."""
    dispatcher = app.dispatcher()
    assert dispatcher.round() == []
    with counted(app.database) as counts:
        assert dispatcher.round() == []
    seconds = []
    for _ in range(repetitions):
        with stopwatch() as watch:
            dispatcher.round()
        seconds.append(watch.seconds)
    yield Figure(f"statements of an idle round {where}", kind, counts.statements, "statements", "<= 2")
    yield Figure(
        f"writes of an idle round {where}", kind, counts.writing, "transactions", "<= 0",
        f"of {counts.transactions} transactions, by the database's own account",
    )  # fmt: skip
    yield Figure(
        f"an idle round of all ten groups {where}", kind, 1000 * statistics.median(seconds), "ms", None,
        f"median of {repetitions}",
    )  # fmt: skip
