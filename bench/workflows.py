"""What a declared workflow costs: a start beside `enqueue_many` of the same rows, and the end of a step.

    python -m bench.workflows [--database sqlite|postgres]

Both sides are measured in turn, in real time and in this process's own CPU: the machine may have other work.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.databases import KINDS, fresh_app, settle, use_postgres
from stepwell import NewStep, Stepwell
from stepwell.model.ids import Uuid7Generator

STEPS = 100
WIDTH = 10  # steps that run side by side; each depends on all of the level before it: 900 edges


def node(value: int = 1) -> int:
    return value


def starting(app: Stepwell) -> Callable[[], object]:
    """Starts a workflow of this shape."""
    job = app.job(name="node")(node)
    flow = app.workflows("bench").workflow("levels")
    for number in range(STEPS):
        flow.step(name=f"s{number}", after=[f"s{other}" for other in _before(number)])(job)
    return lambda: flow.start()


def enqueueing(app: Stepwell) -> Callable[[], object]:
    """Creates the same steps with the same edges in one block."""
    uuids = Uuid7Generator()

    def enqueue() -> object:
        block, made = uuids.next(), list[NewStep]()
        for number in range(STEPS):
            made.append(
                NewStep(
                    action="node",
                    label=f"s{number}",
                    max_retries=2,
                    block=block,
                    workflow=block,
                    depends_on=[made[other] for other in _before(number)],
                )
            )
        return app.enqueue_many(made)

    return enqueue


def _before(number: int) -> range:
    level = number // WIDTH
    return range((level - 1) * WIDTH, level * WIDTH) if level else range(0)


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Real time, and this process's own CPU."""
    started, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=KINDS, action="append")
    parser.add_argument("--pairs", type=int, default=40)
    options = parser.parse_args()
    for kind in options.database or KINDS:
        if kind == "postgres":
            use_postgres(None)
        with tempfile.TemporaryDirectory() as directory, fresh_app(kind, Path(directory), "workflows") as app:
            start, enqueue = starting(app), enqueueing(app)
            for _ in range(5):
                start(), enqueue()
            settle(app)
            pairs = [(seconds(start), seconds(enqueue)) for _ in range(options.pairs)]
            for which, what in enumerate(("real time", "own CPU")):
                mine, other = (statistics.median(each[which] for each in side) for side in zip(*pairs, strict=True))
                ratio = statistics.median(one[which] / two[which] for one, two in pairs)
                print(
                    f"{kind}, {what}: start of {STEPS} steps {1000 * mine:.2f} ms, enqueue_many {1000 * other:.2f} ms; "
                    f"ratio {ratio:.2f} (at most 1.3), median of {options.pairs} pairs"
                )


if __name__ == "__main__":
    main()
