"""Stepwell under the same work as the peers, with every executor, from one worker process and from two."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench.load import CHAINS, FAN_OUT, NO_OP, Measured, Sizes, figure_names, unit_of
from bench.peers.__main__ import NOT_MEASURED, SECONDS_ASIDE, NotMeasured, output_of
from bench.peers.environment import ROOT
from bench.peers.servers import fresh, scratch


@dataclass(frozen=True, slots=True)
class Crew:
    """So many worker processes, each with its own slots; the first also dispatches and reaps."""

    executor: str = "thread"
    workers: int = 1

    @property
    def system(self) -> str:
        return f"stepwell, {self.executor} × {self.workers}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where Stepwell keeps its steps, and where the jobs note that they ran."""

    database: str
    url: str
    ledger: Path

    def environment(self, crew: Crew) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return inherited | {
            "PYTHONPATH": str(ROOT),
            "BENCH_DATABASE": self.database,
            "BENCH_URL": self.url,
            "BENCH_LEDGER": str(self.ledger),
            "BENCH_EXECUTOR": crew.executor,
            "BENCH_WORKERS": str(crew.workers),
        }

    @property
    def app_url(self) -> str:
        return f"sqlite:///{self.url}" if self.database == "sqlite" else self.url


EVERY_CREW: Final = [Crew(executor, workers) for executor in ("thread", "process", "async") for workers in (1, 2)]
# Every executor and either number of workers: enough to show that all of it runs.
FEW_CREWS: Final = [Crew("thread", 1), Crew("process", 1), Crew("async", 2)]


def measure(database: str, sizes: Sizes, work: str, quick: bool = False) -> Iterator[Measured]:
    """The figures of one kind of work, as soon as they are known."""
    crews = [Crew()]
    if work in (NO_OP, CHAINS, FAN_OUT) and not quick:
        crews = EVERY_CREW
    elif work == NO_OP:
        crews = FEW_CREWS
    for crew in crews:
        with scratch() as directory, fresh(database, Path(directory)) as url:
            yield from measure_at(Place(database, url, Path(directory, "ledger")), work, sizes, crew)


def measure_at(place: Place, work: str, sizes: Sizes, crew: Crew) -> Iterator[Measured]:
    """One kind of work on a database that may hold other steps already."""
    command = [sys.executable, "-m", "bench.peers.measure", "stepwell", work, sizes.as_json()]
    try:
        said = output_of(command, place.environment(crew), 2 * sizes.seconds + SECONDS_ASIDE)
    except NotMeasured as error:
        for name in figure_names(work):
            yield Measured(name, place.database, crew.system, None, unit_of(work), f"{NOT_MEASURED}: {error}")
        return
    for line in said.splitlines():
        figure = Measured(**json.loads(line))
        # It names itself as it was set up: what was meant here is what ran there.
        assert figure.system == crew.system, figure
        yield replace(figure, database=place.database)
