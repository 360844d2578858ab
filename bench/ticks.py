"""What a tick costs beside a million finished steps, and beside what is blocked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.databases import fresh_app, settle
from bench.figures import Figure
from bench.idle import idle
from bench.rows import GROUP, Loader, Parent, behind_the_triggers
from bench.shapes import blocked, finished
from bench.timing import compare
from bench.workload import MARKS, OPEN, Workload

Crowd = Callable[[Loader, int, Parent], None]


def beside_a_crowd(
    kind: str, directory: Path, name: str, crowd: Crowd, count: int, repetitions: int
) -> Iterator[Figure]:
    """The same tick with a crowd in its group, and with none."""
    with ExitStack() as stack:
        apps = [stack.enter_context(fresh_app(kind, directory, side)) for side in ("none", "crowd")]
        none, crowded = (Workload(app) for app in apps)
        with behind_the_triggers(apps[1].database) as loader:
            crowd(loader, count, crowded.busy)
        for app in apps:
            settle(app)
        times = compare([none.tick, crowded.tick], repetitions)
        yield Figure(
            f"a tick beside {count:,} {name} steps / beside none", kind, times.ratio(1, 0), "ratio", "<= 1.3",
            f"medians {1000 * times.median(1):.2f} and {1000 * times.median(0):.2f} ms; {times.spread(1, 0)}; the tick "
            f"settles {MARKS} marks and dispatches {MARKS + OPEN} steps, and all {name} steps are in its group {GROUP}",
        )  # fmt: skip
        yield from idle(kind, apps[1], f"beside {count:,} {name} steps", 5 * repetitions)
        for workload in (none, crowded):
            workload.close()


def with_finished(kind: str, directory: Path, count: int, repetitions: int) -> Iterator[Figure]:
    return beside_a_crowd(kind, directory, "finished", finished, count, repetitions)


def with_blocked(kind: str, directory: Path, count: int, repetitions: int) -> Iterator[Figure]:
    return beside_a_crowd(kind, directory, "blocked", blocked, count, repetitions)
