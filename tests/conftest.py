"""Fixtures of all tests: a fresh real database, a clock that the test moves, an engine on both."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.databases import Templates, fresh_database
from tests.postgres_server import NoPostgres, join_run, server_url
from tests.scratch import keep_files_in_memory

if TYPE_CHECKING:
    from stepwell import Stepwell
    from stepwell.testing import ManualClock

# A shared machine makes deadlines lie. CI draws the same examples every time; elsewhere a failure prints
# the blob that draws its example again.
settings.register_profile("local", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

SQLITE_MEMORY = pytest.param("sqlite-memory", id="sqlite-memory", marks=pytest.mark.sqlite)
SQLITE_FILE = pytest.param("sqlite-file", id="sqlite-file", marks=pytest.mark.sqlite)
POSTGRES = pytest.param("postgres", id="postgres", marks=pytest.mark.postgres)


def pytest_configure() -> None:
    keep_files_in_memory()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in what a shell starts with `&`; some tests press Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Before xdist starts its workers, so that the run belongs to the controller and they join it.
    join_run()


@pytest.fixture(scope="session")
def postgres_server() -> None:
    """A running server; when there is none, every test that asks for it fails at once with the reason."""
    reason = None
    try:
        server_url()
    except NoPostgres as error:
        reason = str(error)
    if reason:  # outside of the handler, or pytest would tell it twice
        pytest.fail(reason, pytrace=False)


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Templates]:
    """One database with its schema per kind and process, to be copied for every test."""
    from stepwell import Stepwell

    made = Templates(tmp_path_factory.mktemp("templates"), lambda url: Stepwell(url).open().close())
    yield made
    made.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`database_url` on the databases that the test's markers ask for (see CONTRIBUTING.md)."""
    if "database_kind" not in metafunc.fixturenames:
        return
    kinds = [SQLITE_MEMORY, POSTGRES]
    if metafunc.definition.get_closest_marker("one_database"):
        kinds = [SQLITE_MEMORY]
    elif metafunc.definition.get_closest_marker("sqlite_file"):
        kinds = [SQLITE_MEMORY, SQLITE_FILE, POSTGRES]
    metafunc.parametrize("database_kind", kinds, indirect=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: the tests with workers of their own mostly wait for them."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first, so that no process is left alone with a long one at the end of the run.

    xdist gives each of its processes one stretch of the list, and later takes from the end of the longest that is left.
    So every stretch begins with some of the slow ones; those of one file stay together for the sake of its fixtures.
    """
    stretches = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow: list[list[pytest.Item]] = [[] for _ in range(stretches)]
    quick = [item for item in items if item.get_closest_marker("slow") is None]
    for _, file in groupby((item for item in items if item.get_closest_marker("slow")), key=lambda item: item.path):
        min(slow, key=len).extend(file)
    length = len(items) // stretches
    items.clear()
    for first in slow:
        room = max(0, length - len(first))
        items += [*first, *quick[:room]]
        del quick[:room]
    items += quick


@pytest.fixture
def database_kind(request: pytest.FixtureRequest) -> str:
    """By itself, so that a module which has a `database_url` of its own is not run on several kinds."""
    return str(request.param)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, database_kind: str, tmp_path: Path) -> Iterator[str]:
    """A fresh database with its schema, of every kind that matters for the test."""
    yield from _copied_database(request, database_kind, tmp_path)


@pytest.fixture(params=[SQLITE_FILE, POSTGRES])
def shared_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh database with its schema, of every kind that several processes can open."""
    yield from _copied_database(request, request.param, tmp_path)


@pytest.fixture(params=[POSTGRES])
def postgres_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh PostgreSQL database with its schema."""
    yield from _copied_database(request, request.param, tmp_path)


@pytest.fixture(params=[SQLITE_FILE, POSTGRES])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without any table, of every kind that several processes can open."""
    if request.param == "postgres":
        request.getfixturevalue("postgres_server")
    with fresh_database(request.param, tmp_path) as url:
        yield url


def _copied_database(request: pytest.FixtureRequest, kind: str, directory: Path) -> Iterator[str]:
    if kind == "postgres":
        request.getfixturevalue("postgres_server")
    templates: Templates = request.getfixturevalue("templates")
    with templates.copy(kind, directory) as url:
        yield url


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until the test moves it."""
    from stepwell.testing import ManualClock

    return ManualClock()


@pytest.fixture
def app(database_url: str, clock: ManualClock) -> Iterator[Stepwell]:
    """An engine on a fresh database of every kind, at the time of `clock`."""
    from stepwell import Stepwell

    app = Stepwell(database_url, clock=clock).open()
    try:
        yield app
    finally:
        app.close()
