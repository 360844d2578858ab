"""The benchmark runs, prints every figure it promises, and measures on rows that the engine itself could have left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.rows import behind_the_triggers
from bench.shapes import blocked, finished, open_steps, tree
from bench.workload import Workload
from stepwell import Stepwell
from tests.conftest import POSTGRES, SQLITE_FILE

ROOT = Path(__file__).parents[3]
FIGURES = {
    "a tick beside 400 finished steps / beside none": ("ratio", None),
    "a tick beside 400 blocked steps / beside none": ("ratio", None),
    "a cascade over 200 descendants": ("rows/s", None),
    "bulk create": ("steps/s", None),
    "bulk create / a bare {verb} of all its rows": ("ratio", None),
    "bulk create / a bare {verb} of the steps rows alone": ("ratio", None),
    "phase 9 among 200 open steps": ("ms", None),
} | {
    f"{what} {where}": unit_and_bar
    for where in (
        "beside 400 finished steps",
        "beside 400 blocked steps",
        "beside 200 open steps that no worker serves",
    )
    for what, unit_and_bar in {
        "statements of an idle round": ("statements", "<= 2"),
        "writes of an idle round": ("transactions", "<= 0"),
        "an idle round of all ten groups": ("ms", None),
    }.items()
}


@pytest.fixture(params=[SQLITE_FILE, POSTGRES])
def kind(request: pytest.FixtureRequest) -> str:
    """A database by the name that the benchmark gives it; PostgreSQL's server is there already."""
    if request.param == "postgres":
        request.getfixturevalue("postgres_server")
        return "postgres"
    return "sqlite"


def run_bench(*arguments: str) -> tuple[list[dict[str, Any]], str]:
    """The figures of a quick run, and what it said beside them."""
    command = [sys.executable, "-m", "bench.tick", "--quick", "--json", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.slow
def test_every_figure_is_printed_and_an_idle_round_keeps_its_promises(kind: str) -> None:
    figures, said = run_bench("--strict", "--database", kind)
    verb = {"sqlite": "executemany", "postgres": "COPY"}[kind]
    assert {figure["name"]: (figure["unit"], figure["bar"]) for figure in figures} == {
        name.format(verb=verb): promised for name, promised in FIGURES.items()
    }
    for figure in figures:
        assert set(figure) == {"name", "database", "value", "unit", "bar", "holds", "detail"}
        assert figure["database"] == kind
        assert figure["holds"] is (None if figure["bar"] is None else True)
        if figure["unit"] == "transactions":
            assert figure["value"] == 0
    assert {"sqlite": "synchronous=FULL", "postgres": "fsync="}[kind] in said


def test_the_rows_of_the_benchmark_are_such_as_the_engine_leaves(shared_database_url: str) -> None:
    with Stepwell(shared_database_url) as app:
        workload = Workload(app)
        with behind_the_triggers(app.database) as loader:
            finished(loader, 80, workload.busy)
            blocked(loader, 400, workload.busy)
            tree(loader, 123)
            open_steps(loader, 10)
        assert app.check_invariants() == []
        assert app.sweep() == []
        workload.close()
