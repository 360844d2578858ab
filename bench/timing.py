"""Timing on a machine that other work shares: two sides in turns, medians of many repetitions."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

WARM_UP = 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """How long one thing took on several sides, in seconds, pair by pair."""

    seconds: Sequence[Sequence[float]]

    def median(self, side: int) -> float:
        return statistics.median(self.seconds[side])

    def ratio(self, side: int, base: int) -> float:
        """The median of the ratios of neighbours in time: a slow spell of the machine hits both."""
        return statistics.median(a / b for a, b in zip(self.seconds[side], self.seconds[base], strict=True))

    def spread(self, side: int, base: int) -> str:
        ratios = [a / b for a, b in zip(self.seconds[side], self.seconds[base], strict=True)]
        if len(ratios) < 2:
            return f"one pair, {ratios[0]:.2f}"
        low, _, high = statistics.quantiles(ratios, n=4)
        return f"half of the {len(ratios)} pairs between {low:.2f} and {high:.2f}"


def compare(sides: Sequence[Callable[[], float]], repetitions: int, warm_up: int = WARM_UP) -> Comparison:
    """Measure the sides next to each other, each time in another order. A side prepares itself and says its seconds."""
    seconds: list[list[float]] = [[] for _ in sides]
    for repetition in range(-warm_up, repetitions):
        order = list(range(len(sides)))
        turn = repetition % len(sides)
        for side in order[turn:] + order[:turn]:
            took = sides[side]()
            if repetition >= 0:
                seconds[side].append(took)
    return Comparison(seconds)


class Stopwatch:
    seconds: float = 0.0


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Times its body; the garbage of what came before is collected first."""
    gc.collect()
    watch, started = Stopwatch(), time.perf_counter()
    yield watch
    watch.seconds = time.perf_counter() - started
