"""`python -m bench.drain_cost CHECKOUT`: the processor time that draining no-op steps takes, beside another checkout.

A shared machine has its moods, so it is not the rate that counts here but the processor time of everything that takes
part: this process (worker, dispatcher, fold) and, on PostgreSQL, the processes of the server. The two checkouts take
turns, each run in a process of its own, and what counts is the median of the ratios of the pairs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bench.databases import KINDS
from bench.peers.environment import ROOT
from bench.peers.servers import fresh, scratch

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def drain(url: str, steps: int) -> float:
    """Drain this many no-op steps; the processor time per step, in microseconds."""
    from stepwell import NewStep, Stepwell

    app = Stepwell(url)
    left, done = [steps], threading.Event()

    @app.job()
    def nothing() -> None:
        left[0] -= 1  # under the GIL, and off by some at worst: the end is waited for below
        if left[0] <= 0:
            done.set()

    with app:
        app.enqueue_many([NewStep(action="nothing") for _ in range(steps)])
        before = time.process_time() + _server_seconds(url)
        with app.running(executor="thread", slots=64):
            while app.database.read(lambda tx: tx.fetch("SELECT count(*) AS n FROM steps_agenda", {}))[0]["n"]:
                done.wait(0.5)
        spent = time.process_time() + _server_seconds(url) - before
    return 1e6 * spent / steps


def _server_seconds(url: str) -> float:
    """The processor time of all processes of the PostgreSQL server that runs here."""
    if not url.startswith("postgres"):
        return 0.0
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        postmaster = _status(row[0])[1]
        return sum(seconds for seconds, parent in map(_status, _numbers()) if parent == postmaster)


def _numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _status(process: int) -> tuple[float, int]:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND, int(fields[1])


def _measure(checkout: Path, database: str, steps: int) -> float:
    with scratch() as directory, fresh(database, Path(directory)) as url:
        url = f"sqlite:///{url}" if database == "sqlite" else url
        command = [sys.executable, "-m", "bench.drain_cost", "--drain", url, str(steps)]
        environment = {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{ROOT}"}
        return float(subprocess.check_output(command, env=environment, cwd=ROOT, text=True))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.drain_cost", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the other checkout; it runs in this virtual environment")
    parser.add_argument("--database", action="append", choices=KINDS, help="this one only (default: both)")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20_000)
    options = parser.parse_args(arguments)
    for database in options.database or KINDS:
        pairs: list[tuple[float, float]] = []
        for number in range(options.pairs):
            order = (ROOT, options.checkout) if number % 2 else (options.checkout, ROOT)
            taken = {checkout: _measure(checkout.resolve(), database, options.steps) for checkout in order}
            pairs.append((taken[options.checkout], taken[ROOT]))
        other, this = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratios = sorted(new / old for old, new in pairs)
        print(
            f"{database:9} other {other:7.1f} µs  this {this:7.1f} µs per step  "
            f"ratio {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drain"]:
        print(drain(sys.argv[2], int(sys.argv[3])))
    else:
        sys.exit(main())
