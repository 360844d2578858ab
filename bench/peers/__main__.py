"""`python -m bench.peers`: other job queues under the same work, on the same durability."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.databases import use_postgres
from bench.load import FULL, QUICK, WORK, Measured, Sizes, figure_names, middle, unit_of
from bench.peers.catalogue import PEERS, Entry
from bench.peers.environment import ROOT, NotInstalled, python_of
from bench.peers.servers import durability_of, fresh, scratch
from tests.postgres_server import NoPostgres

# Beside the measured seconds: filling the queue, starting workers.
SECONDS_ASIDE: Final = 120
NOT_MEASURED: Final = "could not be measured"


class NotMeasured(Exception):
    """A peer that did not get through its work; the message says how far it came."""


def measure(entry: Entry, sizes: Sizes, work: Sequence[str] = WORK, runs: int = 1) -> Iterator[Measured]:
    """Every figure of one peer; what cannot be had is said with its reason."""
    for database in entry.databases:
        for kind in work:
            several = [list(_measure_once(entry, database, kind, sizes)) for _ in range(runs)]
            yield from map(middle, zip(*several, strict=True))


def _measure_once(entry: Entry, database: str, work: str, sizes: Sizes) -> Iterator[Measured]:
    try:
        yield from _run(entry, database, work, sizes)
    except (NotMeasured, NotInstalled, NoPostgres) as error:
        reason = str(error).partition("\n")[0]
        for name in figure_names(work):
            yield Measured(name, database, entry.name, None, unit_of(work), f"{NOT_MEASURED}: {reason}")


def _run(entry: Entry, database: str, work: str, sizes: Sizes) -> Iterator[Measured]:
    """One kind of work, in a process and a database of its own: who hangs or dies takes nothing else along."""
    python, durability = python_of(entry), durability_of(database)
    with scratch() as directory, fresh(database, Path(directory)) as url:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_"))}
        environment = {
            **inherited,
            "PYTHONPATH": str(ROOT),
            "BENCH_DATABASE": database,
            "BENCH_URL": url,
            "BENCH_LEDGER": str(Path(directory, "ledger")),
        }
        command = [str(python), "-m", "bench.peers.measure", entry.name, work, sizes.as_json()]
        said = output_of(command, environment, 2 * sizes.seconds + SECONDS_ASIDE)
    for line in said.splitlines():
        figure = Measured(**json.loads(line))
        yield figure if figure.value is None else replace(figure, detail=f"{figure.detail}; {durability}")


def output_of(command: Sequence[str], environment: dict[str, str], seconds: float, folder: Path = ROOT) -> str:
    """What it says on stdout; when it ends badly, its last word is the reason why nothing was measured."""
    with tempfile.TemporaryFile("w+", errors="replace") as complaints:
        # Its input is its lifeline: when that ends, it ends its workers and itself.
        with subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            start_new_session=True,
        ) as process:
            timer = threading.Timer(seconds, process.terminate)
            timer.start()
            try:
                assert process.stdout is not None
                said = process.stdout.read()
                process.wait()  # before its lifeline is cut
            finally:
                timer.cancel()
        if process.returncode:
            complaints.seek(0)
            last = complaints.read().strip().splitlines()[-1:]
            raise NotMeasured(last[0] if last else f"it ended with {process.returncode} and without a word")
    return said


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    use_postgres(options.postgres)
    say = (lambda text: print(text, file=sys.stderr)) if options.json else print
    say(f"Python {platform.python_version()}, {os.cpu_count()} processors, {platform.platform()}")
    missing = 0
    for entry in PEERS:
        if options.only and entry.name not in options.only:
            continue
        for figure in measure(entry, QUICK if options.quick else FULL, options.work or WORK, options.runs):
            missing += figure.value is None and figure.detail.startswith(NOT_MEASURED)
            print(figure.as_json() if options.json else _for_people(figure), flush=True)
    return 1 if missing and options.strict else 0


def _for_people(figure: Measured) -> str:
    on = f"{figure.system} on {figure.database}"
    return f"{on:<26}{figure.name:<22}{figure.shown:>10} {figure.unit:<8} {figure.detail}"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    names = [entry.name for entry in PEERS]
    parser.add_argument("--only", action="append", choices=names, help="only this one (default: all)")
    parser.add_argument("--work", action="append", choices=WORK, help="only this work (default: all)")
    parser.add_argument("--runs", type=int, default=1, help="measure each figure so often and take the median")
    parser.add_argument("--postgres", metavar="URL", help="a server to use (default: one is started)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, says nothing about speed")
    parser.add_argument("--json", action="store_true", help="one object per line and figure")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a peer could not be measured")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
