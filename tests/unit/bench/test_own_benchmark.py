"""Stepwell's own benchmark prints every figure it promises, and compares like with like."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.at_rest import _counter, _cpu_seconds
from bench.lines import Line, side_by_side
from bench.load import CHAINS, IN_BULK, NO_OP, ONE_BY_ONE, PICK_UP, QUICK, WORK, Measured, figure_names, unit_of
from bench.own import Crew, Place, measure_at
from stepwell import Stepwell
from tests.conftest import POSTGRES, SQLITE_FILE

ROOT = Path(__file__).parents[3]
FIELDS = {"name", "database", "value", "unit", "limit", "peers", "ratio", "bar", "holds", "detail"}
CREWS = {f"{NO_OP}, {crew}": "jobs/s" for crew in ("thread × 1", "process × 1", "async × 2")}
AT_REST = {"sqlite": "writing transactions while idle", "postgres": "transactions while idle"}


@pytest.fixture(params=[SQLITE_FILE, POSTGRES])
def kind(request: pytest.FixtureRequest) -> str:
    """A database by the name that the benchmark gives it; PostgreSQL's server is there already."""
    if request.param == "postgres":
        request.getfixturevalue("postgres_server")
        return "postgres"
    return "sqlite"


@pytest.mark.slow
def test_every_figure_of_a_quick_run_is_printed_with_its_value_and_without_a_bar(kind: str) -> None:
    command = [sys.executable, "-m", "bench", "--quick", "--only-own", "--json", "--database", kind]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    figures: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert {figure["name"]: figure["unit"] for figure in figures} == {
        **CREWS,
        **{name: unit_of(work) for work in WORK for name in figure_names(work)},
        AT_REST[kind]: "1/s",
        "processor while idle": "% of a core",
        f"{NO_OP} beside 20,000 finished steps / beside none": "ratio",
    }
    for figure in figures:
        assert set(figure) == FIELDS
        assert figure["database"] == kind
        assert figure["value"] is not None, figure
        assert (figure["limit"], figure["peers"], figure["ratio"]) == (None, {}, None)
        assert (figure["bar"], figure["holds"]) == (None, None)
    assert {"sqlite": "synchronous=FULL", "postgres": "fsync="}[kind] in done.stderr


def measured(
    name: str, value: float | None, system: str = "stepwell, thread × 1", database: str = "sqlite"
) -> Measured:
    return Measured(name, database, system, value, unit_of(PICK_UP if name.startswith(PICK_UP) else name))


def lines_of(database: str, own: list[Measured], limit: list[Measured], peers: list[Measured]) -> dict[str, Line]:
    work = next(kind for kind in WORK if own[0].name.startswith(kind))
    return {line.name: line for line in side_by_side(database, work, own, limit, peers)}


@pytest.mark.parametrize(("database", "bar", "holds"), [("sqlite", ">= 0.3", True), ("postgres", ">= 0.5", False)])
def test_the_fastest_crew_is_held_against_the_limit(database: str, bar: str, holds: bool) -> None:
    own = [measured(NO_OP, 3_000.0), measured(NO_OP, 4_000.0, "stepwell, async × 2")]
    lines = lines_of(database, own, [measured(NO_OP, 10_000.0, "the limit")], [])
    assert [(name, line.value, line.ratio) for name, line in lines.items()] == [
        (f"{NO_OP}, thread × 1", 3_000.0, 0.3),
        (f"{NO_OP}, async × 2", 4_000.0, 0.4),
        (NO_OP, 4_000.0, 0.4),
        (f"{NO_OP} / the limit", 0.4, None),
    ]
    whole = lines[f"{NO_OP} / the limit"]
    assert (whole.bar, whole.holds) == (bar, holds)
    assert lines[NO_OP].detail.startswith("stepwell, async × 2")


def test_it_must_be_ahead_of_the_best_peer_on_any_database_and_ten_times_ahead_of_three() -> None:
    peers = [
        measured(CHAINS, 500.0, "huey", "redis"),
        measured(CHAINS, 800.0, "huey", "sqlite"),
        measured(CHAINS, 90.0, "dbos", "postgres"),
        measured(CHAINS, None, "procrastinate", "postgres"),
    ]
    lines = lines_of("sqlite", [measured(CHAINS, 1_000.0)], [], peers)
    assert lines[CHAINS].peers == {"huey on redis": 500.0, "huey on sqlite": 800.0, "dbos on postgres": 90.0}
    ahead = {name: (line.value, line.bar, line.holds) for name, line in lines.items() if "ahead" in name}
    assert ahead == {
        f"{CHAINS}, ahead of the best peer": (1.25, ">= 1", True),
        f"{CHAINS}, ahead of dbos on postgres": (pytest.approx(11.1, abs=0.1), ">= 10", True),
    }
    assert "huey on sqlite" in lines[f"{CHAINS}, ahead of the best peer"].detail


def test_ten_times_is_asked_for_where_the_work_is_nothing_and_nowhere_else() -> None:
    for work, asked in ((NO_OP, True), (CHAINS, True), (ONE_BY_ONE, False), (IN_BULK, False)):
        lines = lines_of("postgres", [measured(work, 5.0)], [], [measured(work, 1.0, "absurd", "postgres")])
        assert (f"{work}, ahead of absurd on postgres" in lines) is asked
        assert lines[f"{work}, ahead of the best peer"].value == 5.0


def test_of_times_the_shorter_is_the_better_one() -> None:
    p50, p99 = f"{PICK_UP} p50", f"{PICK_UP} p99"
    peers = [measured(p50, 40.0, "huey", "redis"), measured(p50, 4.0, "celery", "redis")]
    own = [measured(f"{PICK_UP} p{percent}", value) for percent, value in ((50, 2.0), (95, 9.0), (99, 11.0))]
    lines = lines_of("sqlite", own, [measured(p50, 1.0, "the limit")], peers)
    assert (lines[p50].ratio, lines[p50].best_peer, lines[p50].holds) == (2.0, ("celery on redis", 4.0), True)
    assert lines[f"{p50}, ahead of the best peer"].value == 2.0
    assert (lines[p99].bar, lines[p99].holds) == ("<= 10", False)


def test_what_could_not_be_measured_holds_no_bar() -> None:
    own, limit = [measured(NO_OP, None)], [measured(NO_OP, 9.0, "the limit")]
    lines = lines_of("postgres", own, limit, [measured(NO_OP, 1.0, "huey", "redis")])
    assert {name: line.holds for name, line in lines.items() if line.bar} == {
        f"{NO_OP} / the limit": False,
        f"{NO_OP}, ahead of the best peer": False,
    }


def test_a_worker_that_cannot_start_is_reported_with_the_reason(tmp_path: Path) -> None:
    place = Place("sqlite", f"{tmp_path}/not/there.db", tmp_path / "ledger")
    (figure,) = measure_at(place, NO_OP, QUICK, Crew("async", 2))
    assert (figure.value, figure.system) == (None, "stepwell, async × 2")
    assert "not/there.db" in figure.detail


def test_transactions_that_write_are_counted_in_sqlite_and_those_that_read_are_not(tmp_path: Path) -> None:
    place = Place("sqlite", f"{tmp_path}/steps.db", tmp_path / "ledger")
    with closing(Stepwell(place.app_url)) as app:
        app.enqueue("first")
        count = _counter(place)
        before = count()
        for _ in range(3):
            app.enqueue("work")
        assert count() - before == 3
        app.stats()
        assert count() - before == 3


def test_the_processor_time_of_children_counts_with_their_parent() -> None:
    # The shell waits for a child that reads its own input: what that child has used is in no other account.
    burn = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\nsys.stdin.read()"
    command = ["sh", "-c", f'"{sys.executable}" -c "$1"; true', "sh", burn]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        assert _cpu_seconds(shell.pid) >= 0.25
        shell.communicate()


def test_lines_can_be_printed_as_json() -> None:
    line = Line("chains", "sqlite", 2.0, "steps/s", 4.0, {"huey on redis": 1.0}, ">= 3")
    assert set(json.loads(line.as_json())) == FIELDS
    assert json.loads(replace(line, value=None).as_json())["ratio"] is None
