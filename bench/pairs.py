"""`python -m bench.pairs CHECKOUT`: this checkout beside another one, alternating in one run on both databases.

Each figure is taken in pairs, the two checkouts taking turns, and what counts is the median of their ratios. Beside the
throughput there is the CPU time for each job, of all processes and of PostgreSQL's: on a machine with other work, only
this one is meaningful. Each checkout needs its own virtual environment in `.venv` (`make test` makes one); both are
measured by the benchmark of this one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.databases import KINDS
from bench.load import CHAINS, FAN_OUT, FULL, IN_BULK, NO_OP, ONE_BY_ONE, PICK_UP, QUICK, Measured, Sizes
from bench.own import Crew, Place
from bench.peers.__main__ import SECONDS_ASIDE, output_of
from bench.peers.environment import ROOT
from bench.peers.servers import fresh, scratch

LINES: Final = (
    (NO_OP, Crew("thread", 1)),
    (NO_OP, Crew("process", 2)),
    (CHAINS, Crew("thread", 1)),
    (FAN_OUT, Crew("thread", 1)),
    (ONE_BY_ONE, Crew()),
    (IN_BULK, Crew()),
    (PICK_UP, Crew()),
)

CPU: Final = "CPU µs"


def measure(checkout: Path, database: str, work: str, crew: Crew, sizes: Sizes) -> Iterator[Measured]:
    """The figures of one kind of work by one checkout, on a fresh database."""
    command = [
        str(checkout / ".venv" / "bin" / "python"), "-m", "bench.peers.measure", "stepwell", work, sizes.as_json()
    ]  # fmt: skip
    with scratch() as directory, fresh(database, Path(directory)) as url:
        place = Place(database, url, Path(directory, "ledger"))
        for line in output_of(command, place.environment(crew), 2 * sizes.seconds + SECONDS_ASIDE).splitlines():
            yield Measured(**json.loads(line))


def compare(other: Path, database: str, work: str, crew: Crew, sizes: Sizes, pairs: int) -> Iterator[str]:
    """A line for each figure and for its CPU time: the medians of both, and the median of the ratios of the pairs."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(pairs):
        order = (ROOT, other) if number % 2 else (other, ROOT)
        taken = {checkout: list(measure(checkout, database, work, crew, sizes)) for checkout in order}
        for theirs, ours in zip(taken[other], taken[ROOT], strict=True):
            if theirs.value and ours.value:
                found.setdefault((ours.name, ours.unit), []).append((theirs.value, ours.value))
            if theirs.cpu and ours.cpu:
                found.setdefault((work, CPU), []).append((theirs.cpu, ours.cpu))
    for (name, unit), values in found.items():
        before, after = (statistics.median(column) for column in zip(*values, strict=True))
        ratios = sorted(new / old for old, new in values)
        yield (
            f"{database:9} {name:28} {crew.executor} × {crew.workers}  {before:10,.2f} {after:10,.2f} {unit:8} "
            f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


def _larger(sizes: Sizes, times: int) -> Sizes:
    counts = {name: times * getattr(sizes, name) for name in ("jobs", "singles", "bulk", "chains", "children")}
    return replace(sizes, **counts)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pairs", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the other checkout, with its .venv")
    parser.add_argument("--database", action="append", choices=KINDS, help="this one only (default: both)")
    parser.add_argument("--pairs", type=int, default=5, help="how often each figure is taken by each")
    parser.add_argument("--work", action="append", help="this kind of work only")
    parser.add_argument("--times", type=int, default=1, help="more of everything: less of the start in the CPU time")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs")
    options = parser.parse_args(arguments)
    sizes = QUICK if options.quick else _larger(FULL, options.times)
    print(f"{'database':9} {'figure':28} {'executor':12} {'other':>10} {'this':>10}")
    for database in options.database or KINDS:
        for work, crew in LINES:
            if options.work is None or work in options.work:
                for line in compare(options.checkout.resolve(), database, work, crew, sizes, options.pairs):
                    print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
