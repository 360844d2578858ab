"""`python -m bench.inline`: how many no-op steps `run_until_idle` runs in a second of CPU time, in memory."""

from __future__ import annotations

import time
from typing import Final

from stepwell import Stepwell

STEPS: Final = 2_000
REPETITIONS: Final = 5


def rate(steps: int = STEPS) -> float:
    """Steps per second of CPU time: other work on the machine does not count."""
    app = Stepwell("sqlite://")

    @app.job()
    def no_op(number: int) -> int:
        return number

    app.enqueue_many(no_op.draft(number) for number in range(steps))
    started = time.process_time()
    runs = app.run_until_idle()
    return runs / (time.process_time() - started)


if __name__ == "__main__":
    print(" ".join(f"{rate():,.0f}" for _ in range(REPETITIONS)), "steps per second of CPU time")
