"""`python -m bench`: Stepwell beside what its databases allow and beside other job queues, in one run."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from bench import limit, own
from bench.at_rest import at_rest
from bench.beside import drain_beside_finished
from bench.databases import KINDS, settings_of, use_postgres
from bench.lines import Line, as_table, of_figure, shown, side_by_side
from bench.load import FULL, NO_OP, PICK_UP, QUICK, WORK, Measured, Sizes, middle
from bench.peers import __main__ as peers
from bench.peers.catalogue import PEERS, Entry
from bench.peers.environment import PLACE


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of everything."""

    sizes: Sizes
    finished: int
    repetitions: int
    seconds_at_rest: float
    peers_work: Sequence[str]


THOROUGH: Final = Extent(FULL, finished=1_000_000, repetitions=5, seconds_at_rest=5.0, peers_work=WORK)
# Says nothing about speed, so it has no bars: it shows that everything still runs.
HASTY: Final = Extent(QUICK, finished=20_000, repetitions=1, seconds_at_rest=1.0, peers_work=(NO_OP,))
# One run of it is over in half a second: on a machine with other work, one was seen to be four times another.
RUNS_OF_THE_LIMIT: Final = 5

Say = Callable[[str], None]


def measure(database: str, extent: Extent, theirs: Sequence[Measured], options: argparse.Namespace) -> Iterator[Line]:
    """Every line of one database. For each kind of work the limit is taken right beside it: a machine has its moods."""
    say: Say = options.say
    for work in WORK:
        allowed: list[Measured] = []
        if not options.only_own:
            runs = options.runs if options.quick or work == PICK_UP else max(options.runs, RUNS_OF_THE_LIMIT)
            allowed = _noted(say, _median(partial(limit.measure, database, extent.sizes, [work]), runs))
        ours = _noted(say, _median(partial(own.measure, database, extent.sizes, work, options.quick), options.runs))
        yield from side_by_side(database, work, ours, allowed, theirs)
    for figure in at_rest(database, extent.seconds_at_rest):
        yield of_figure(figure)
    for figure in drain_beside_finished(database, extent.sizes, extent.finished, extent.repetitions):
        yield of_figure(figure)


def measure_peers(extent: Extent, options: argparse.Namespace) -> list[Measured]:
    """All peers on all their databases: we want to be ahead of each, whatever it keeps its work in."""
    say: Say = options.say
    figures: list[Measured] = []
    for entry in PEERS:
        databases = tuple(database for database in entry.databases if not options.quick or _is_here(entry, database))
        if databases != entry.databases:
            missing = ", ".join(sorted(set(entry.databases) - set(databases)))
            say(f"  {entry.name} on {missing}: left out, a quick run installs nothing (`make bench-peers` does)")
        here = replace(entry, databases=databases)
        figures += _noted(say, peers.measure(here, extent.sizes, extent.peers_work, options.runs))
    return figures


def _is_here(entry: Entry, database: str) -> bool:
    stamp = PLACE / entry.name / "installed"
    if not stamp.exists() or stamp.read_text() != "\n".join(entry.requirements):
        return False
    servers = ("redis-server", "valkey-server")
    return database != "redis" or (PLACE / "redis" / servers[0]).exists() or any(map(shutil.which, servers))


def _median(figures: Callable[[], Iterable[Measured]], runs: int) -> Iterable[Measured]:
    """One run after the other, so that a slow spell of the machine spoils one of each figure at most."""
    if runs == 1:
        return figures()
    return map(middle, zip(*[list(figures()) for _ in range(runs)], strict=True))


def _noted(say: Say, figures: Iterable[Measured]) -> list[Measured]:
    kept: list[Measured] = []
    for figure in figures:
        value = figure.detail if figure.value is None else f"{figure.shown} {figure.unit}"
        say(f"  {figure.system} on {figure.database}: {figure.name}: {value}")
        kept.append(figure)
    return kept


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    use_postgres(options.postgres)
    say: Say = options.say
    started, extent = time.monotonic(), HASTY if options.quick else THOROUGH
    say(f"Python {platform.python_version()}, {os.cpu_count()} processors, {platform.platform()}")
    say(f"load of the machine at the start: {os.getloadavg()[0]:.1f}")
    theirs: list[Measured] = []
    if not options.only_own and not options.no_peers:
        if options.quick:
            say(f"a quick run asks the peers for {', '.join(extent.peers_work)} alone")
        theirs = measure_peers(extent, options)
    lines: list[Line] = []
    for database in options.database or KINDS:
        say(f"{database}: {settings_of(database)}")
        for line in measure(database, extent, theirs, options):
            line = replace(line, bar=None) if options.quick else line
            lines.append(line)
            if options.json:
                print(line.as_json(), flush=True)
    if not options.json:
        print(f"\n{as_table(lines)}\n")
    missed = [line for line in lines if line.holds is False]
    for line in missed:
        is_ = f"is {shown(line.value)}" if line.value is not None else "could not be measured"
        say(f"MISSED on {line.database}: {line.name} {is_}, and should be {line.bar} {line.unit}")
    if not missed:
        say("A quick run has no bars." if options.quick else "Every bar holds.")
    say(f"It took {(time.monotonic() - started) / 60:.1f} minutes.")
    return 1 if missed and options.strict else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--database", action="append", choices=KINDS, help="Stepwell on this one only (default: both)")
    parser.add_argument("--postgres", metavar="URL", help="a server to use; a superuser's (default: one is started)")
    parser.add_argument("--only-own", action="store_true", help="neither the limit nor the peers")
    parser.add_argument("--no-peers", action="store_true", help="the limit, but no peers")
    parser.add_argument("--runs", type=int, default=1, help="measure each figure so often and take the median")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, says nothing about speed")
    parser.add_argument("--json", action="store_true", help="one object per line and figure")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a bar is missed")
    options = parser.parse_args(arguments)
    options.say = (lambda text: print(text, file=sys.stderr, flush=True)) if options.json else print
    return options


if __name__ == "__main__":
    sys.exit(main())
