"""`python -m bench.tick`: what ticks, cascades, picking and bulk creation cost on both databases, with their bars."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.cascade import cascade
from bench.create import bulk_create
from bench.databases import KINDS, settings_of, use_postgres
from bench.figures import Figure, as_table
from bench.picking import picking
from bench.ticks import with_blocked, with_finished


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    finished: int = 1_000_000
    blocked: int = 100_000
    descendants: int = 100_000
    per_call: int = 10_000
    open_steps: tuple[int, ...] = (10_000, 100_000)
    repetitions: int = 60
    calls: int = 15


FULL = Sizes()
# Says nothing about speed, so its times have no bars: it shows that everything still runs.
QUICK = Sizes(finished=400, blocked=400, descendants=200, per_call=100, open_steps=(200,), repetitions=2, calls=2)

COUNTED = ("statements", "transactions")


def measure(kind: str, sizes: Sizes, directory: Path) -> Iterator[Figure]:
    """Every figure of one database, as soon as it is known."""
    parts: list[Callable[[], Iterator[Figure]]] = [
        lambda: with_finished(kind, directory, sizes.finished, sizes.repetitions),
        lambda: with_blocked(kind, directory, sizes.blocked, sizes.repetitions),
        lambda: cascade(kind, directory, sizes.descendants),
        lambda: bulk_create(kind, directory, sizes.per_call, sizes.calls),
        *(lambda count=count: picking(kind, directory, count, sizes.repetitions) for count in sizes.open_steps),
    ]
    for part in parts:
        yield from part()


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    use_postgres(options.postgres)
    say = (lambda text: print(text, file=sys.stderr)) if options.json else print
    say(f"Python {platform.python_version()}, {os.cpu_count()} processors, {platform.platform()}")
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as directory:
        for kind in options.database or KINDS:
            say(f"{kind}: {settings_of(kind)}")
            for figure in measure(kind, QUICK if options.quick else FULL, Path(directory)):
                if options.quick and figure.unit not in COUNTED:
                    figure = replace(figure, bar=None)
                figures.append(figure)
                if options.json:
                    print(figure.as_json(), flush=True)
                else:
                    print(f"  {figure.name}: {figure.shown} {figure.unit}", flush=True)
    if not options.json:
        print(f"\n{as_table(figures)}\n")
    missed = [figure for figure in figures if figure.holds is False]
    for figure in missed:
        say(f"MISSED on {figure.database}: {figure.name} is {figure.shown}, and should be {figure.bar}")
    if not missed:
        say("Every bar holds.")
    return 1 if missed and options.strict else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.tick", description=__doc__)
    parser.add_argument("--database", action="append", choices=KINDS, help="only this one (default: both)")
    parser.add_argument(
        "--postgres", metavar="URL", help="a server to use; the role must be a superuser (default: one is started)"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, says nothing about speed")
    parser.add_argument("--json", action="store_true", help="one object per line and figure")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a bar is missed")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
