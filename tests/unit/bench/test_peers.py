"""The limit makes the changes it claims to make; a peer that cannot be measured is reported with the reason."""

from __future__ import annotations

import json
import os
import select
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench import limit
from bench.limit_stores import Postgres, Row, Sqlite, Store
from bench.load import CHAINS, FAN_OUT, NO_OP, PICK_UP, QUICK, WORK, Ledger, figure_names
from bench.peers import __main__ as peers
from bench.peers import environment, measure
from bench.peers.catalogue import PEERS, Entry
from bench.peers.peer import Peer
from tests.conftest import POSTGRES, SQLITE_FILE

ROOT = Path(__file__).parents[3]
SIZES = replace(QUICK, jobs=300, singles=3, bulk=200, chains=150, length=3, children=150, pick_ups=2)
EVERY_CHANGE = [(None, "Pending"), ("Pending", "Dispatched"), ("Dispatched", "Running"), ("Running", "Completed")]
STEPS = {NO_OP: 300, CHAINS: 450, FAN_OUT: 151}


class Place:
    """A database, and what stands in it."""

    def __init__(self, url: str) -> None:
        self._url = url.removeprefix("sqlite:///")

    def open(self) -> Store:
        return Postgres(self._url) if self._url.startswith("postgresql") else Sqlite(self._url)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        connect: Any = psycopg.connect if self._url.startswith("postgresql") else sqlite3.connect
        with closing(connect(self._url)) as connection:
            return list(connection.execute(query).fetchall())


@pytest.fixture
def place(empty_database_url: str) -> Place:
    return Place(empty_database_url)


@pytest.mark.parametrize("work", STEPS)
def test_the_limit_takes_every_step_through_all_states_with_a_history_row_each(place: Place, work: str) -> None:
    with closing(place.open()) as store:
        store.create()
        list(limit.MEASURES[work](store, place.open, SIZES))
    assert place.rows("SELECT state, count(*) FROM steps GROUP BY state") == [("Completed", STEPS[work])]
    changes: dict[int, list[tuple[str | None, str]]] = {}
    for step, origin, target in place.rows("SELECT step_id, from_state, to_state FROM history"):
        changes.setdefault(step, []).append((origin, target))
    assert len(changes) == STEPS[work]
    assert all(sorted(made, key=EVERY_CHANGE.index) == EVERY_CHANGE for made in changes.values())


def test_the_limit_starts_a_step_of_a_chain_only_after_the_one_before_it(place: Place) -> None:
    with closing(place.open()) as store:
        store.create()
        store.enqueue_many([Row(0, next=1), Row(1, blocked=1)])
        assert store.dispatch() == 1
        assert store.turn([], linked=True) == [0]
        assert store.dispatch() == 0
        store.turn([0], linked=True)
        assert store.dispatch() == 1


def test_the_limit_keeps_a_parent_open_until_its_last_child_has_ended(place: Place) -> None:
    with closing(place.open()) as store:
        store.create()
        store.enqueue(Row(0, children=2))
        store.dispatch()
        store.turn([], linked=True)
        store.enqueue_many([Row(1, parent=0), Row(2, parent=0)])
        store.dispatch()
        store.turn([], linked=True)
        store.turn([1], linked=True)
        assert place.rows("SELECT state FROM steps WHERE id = 0") == [("Running",)]
        store.turn([2], linked=True)
        assert place.rows("SELECT state FROM steps WHERE id = 0") == [("Completed",)]


@pytest.fixture(params=[SQLITE_FILE, POSTGRES])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "postgres":
        request.getfixturevalue("postgres_server")
        return "postgres"
    return "sqlite"


@pytest.mark.slow
def test_the_limit_prints_every_figure(kind: str) -> None:
    figures = list(limit.measure(kind, SIZES))
    assert [figure.name for figure in figures] == [name for work in WORK for name in figure_names(work)]
    for figure in figures:
        said = json.loads(figure.as_json())
        assert list(said) == ["name", "database", "system", "value", "unit", "detail", "cpu"]
        assert said["database"] == kind
        assert said["system"] == "the limit"
        assert said["value"] > 0


def test_every_peer_has_a_module_that_nothing_imports_by_accident() -> None:
    modules = {path.stem for path in (ROOT / "bench" / "peers").glob("*.py")}
    assert {entry.name for entry in PEERS} <= modules
    assert not [entry.name for entry in PEERS if f"bench.peers.{entry.name}" in sys.modules]


@pytest.fixture
def a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(environment, "PLACE", tmp_path / "peers")
    return tmp_path / "peers"


@pytest.mark.slow
@pytest.mark.usefixtures("a_place_of_its_own")
def test_a_peer_that_cannot_be_installed_is_reported_with_the_reason() -> None:
    entry = Entry("nobody", ("./there-is-no-such-package",), ("sqlite",))
    figures = list(peers.measure(entry, SIZES, [NO_OP, PICK_UP], runs=2))
    assert [figure.name for figure in figures] == [*figure_names(NO_OP), *figure_names(PICK_UP)]
    for figure in figures:
        assert figure.value is None
        assert figure.detail.startswith("could not be measured: could not install ./there-is-no-such-package: ")


def test_a_peer_that_does_not_run_is_reported_with_the_end_of_its_output(a_place_of_its_own: Path) -> None:
    # An environment that counts as made, but has nothing in it that Huey's module could import.
    programs = a_place_of_its_own / "huey" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    (programs.parent / "installed").write_text("nothing")
    (figure,) = peers.measure(Entry("huey", ("nothing",), ("sqlite",)), SIZES, [NO_OP])
    assert figure.value is None
    assert figure.detail == "could not be measured: ModuleNotFoundError: No module named 'huey'"


class Sleepy(Peer):
    """A peer whose workers do as they are told."""

    system = "sleepy"
    settings = "none"

    def __init__(self, *codes: str) -> None:
        self._codes = codes

    def prepare(self) -> None: ...

    def workers(self) -> Sequence[Sequence[str]]:
        return [[sys.executable, "-c", code] for code in self._codes]

    def enqueue(self) -> None: ...


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Any]:
    with (tmp_path / "log").open("w+b") as log:
        yield log


def test_a_worker_that_exits_is_noticed_with_the_end_of_its_output(log: Any) -> None:
    workers = measure.Workers(Sleepy("raise SystemExit('out of ink')"), log)
    with pytest.raises(RuntimeError, match="its worker ended with 1: out of ink"):
        workers.have_run(1, seconds=60)
    workers.end()


def test_ending_the_workers_ends_their_children_too(log: Any, tmp_path: Path) -> None:
    # The link appears at once and points nowhere: its target is the number of the worker's child.
    said = tmp_path / "child"
    worker = (
        "import os, subprocess, time; child = subprocess.Popen(['sleep', '60']); "
        f"os.symlink(str(child.pid), {str(said)!r}); time.sleep(60)"
    )
    workers = measure.Workers(Sleepy(worker), log)
    while not said.is_symlink():
        assert not workers.have_run(1, seconds=0.01)
    child = os.pidfd_open(int(said.readlink().name))
    try:
        workers.end()
        ended, _, _ = select.select([child], [], [], 10)  # readable once the process has ended
        assert ended
    finally:
        os.close(child)


def test_jobs_of_many_processes_are_all_in_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    code = f"from bench.load import Ledger; ledger = Ledger({str(path)!r}); [ledger.mark() for _ in range(500)]"
    writers = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert Ledger(path).count() == len(Ledger(path).moments()) == 1_500
