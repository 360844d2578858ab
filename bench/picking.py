"""Phase 9 among many open steps."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.databases import fresh_app, settle
from bench.figures import Figure
from bench.idle import idle
from bench.rows import ACTION, GROUP, behind_the_triggers
from bench.shapes import open_steps
from bench.workload import Workload
from stepwell import NewStep
from stepwell.dispatch.phases import PICK
from stepwell.dispatch.tick import BATCH_LIMIT


def picking(kind: str, directory: Path, count: int, repetitions: int) -> Iterator[Figure]:
    """How long the pick of a full batch takes while `count` steps are open; each batch is replaced."""
    with fresh_app(kind, directory, "picking") as app:
        workload = Workload(app)
        with behind_the_triggers(app.database) as loader:
            open_steps(loader, count)
        settle(app)
        milliseconds = []
        for _ in range(repetitions):
            report = workload.dispatch_a_batch()
            milliseconds += [ran.milliseconds for ran in report.phases if ran.phase is PICK]
            app.enqueue_many([NewStep(action=ACTION, group=GROUP) for _ in range(report.dispatched)])
        workload.close()
        yield Figure(
            f"phase 9 among {count:,} open steps", kind, statistics.median(milliseconds), "ms", "<= 10",
            f"median of {repetitions}, picking {min(BATCH_LIMIT, count)} at a time; "
            f"slowest {max(milliseconds):.2f} ms",
        )  # fmt: skip
        yield from idle(kind, app, f"beside {count:,} open steps that no worker serves", repetitions)
