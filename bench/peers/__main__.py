"""`python -m bench.peers`: other job queues under the same work, on the same durability."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.databases import use_postgres
from bench.load import FULL, QUICK, WORK, Measured, Sizes, figure_names, unit_of
from bench.peers.catalogue import PEERS, Entry
from bench.peers.environment import ROOT, NotInstalled, python_of
from bench.peers.servers import SETTINGS, fresh, scratch, version_of
from tests.postgres_server import NoPostgres

# Beside the measured seconds: filling the queue, starting workers.
SECONDS_ASIDE: Final = 120


def measure(entry: Entry, sizes: Sizes, work: Sequence[str] = WORK) -> Iterator[Measured]:
    """Every figure of one peer; what cannot be had is said with its reason."""
    for database in entry.databases:
        try:
            python = python_of(entry)
            version_of(database)
        except (NotInstalled, NoPostgres) as error:
            for kind in work:
                yield from _without(entry, database, kind, str(error))
            continue
        for kind in work:
            yield from _run(entry, python, database, kind, sizes)


def _run(entry: Entry, python: Path, database: str, work: str, sizes: Sizes) -> Iterator[Measured]:
    """One kind of work, in a process and a database of its own: who hangs or dies takes nothing else along."""
    with scratch() as directory, fresh(database, Path(directory)) as url:
        process = subprocess.Popen(
            [str(python), "-m", "bench.peers.measure", entry.name, work, sizes.as_json()],
            cwd=ROOT,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_"))},
                "PYTHONPATH": str(ROOT),
                "BENCH_DATABASE": database,
                "BENCH_URL": url,
                "BENCH_LEDGER": str(Path(directory, "ledger")),
            },
            stdout=subprocess.PIPE,
            stderr=(Path(directory) / "complaints").open("wb"),
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=sizes.seconds * 2 + SECONDS_ASIDE)
            problem = _last_line(Path(directory) / "complaints") if process.returncode else None
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            problem = "it hung, and was ended"
    if problem is not None:
        yield from _without(entry, database, work, problem)
        return
    for line in said.splitlines():
        yield Measured(**json.loads(line))


def _without(entry: Entry, database: str, work: str, reason: str) -> Iterator[Measured]:
    for name in figure_names(work):
        yield Measured(name, database, entry.name, None, unit_of(work), f"could not be measured: {reason}")


def _last_line(complaints: Path) -> str:
    lines = complaints.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it ended without a word"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    use_postgres(options.postgres)
    say = (lambda text: print(text, file=sys.stderr)) if options.json else print
    say(f"Python {platform.python_version()}, {os.cpu_count()} processors, {platform.platform()}")
    missing = 0
    for entry in PEERS:
        if options.only and entry.name not in options.only:
            continue
        for figure in measure(entry, QUICK if options.quick else FULL, options.work or WORK):
            missing += figure.value is None and figure.detail.startswith("could not")
            print(figure.as_json() if options.json else _for_people(figure), flush=True)
    return 1 if missing and options.strict else 0


def _for_people(figure: Measured) -> str:
    on = f"{figure.system} on {figure.database}"
    durable = "" if figure.value is None else f"; {SETTINGS[figure.database]}"
    return f"{on:<26}{figure.name:<22}{figure.shown:>10} {figure.unit:<8} {figure.detail}{durable}"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    names = [entry.name for entry in PEERS]
    parser.add_argument("--only", action="append", choices=names, help="only this one (default: all)")
    parser.add_argument("--work", action="append", choices=WORK, help="only this work (default: all)")
    parser.add_argument("--postgres", metavar="URL", help="a server to use (default: one is started)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, says nothing about speed")
    parser.add_argument("--json", action="store_true", help="one object per line and figure")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a peer could not be measured")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
