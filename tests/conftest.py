"""Fixtures of all tests: a fresh real database, a clock that the test moves, an engine on both."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.databases import fresh_database
from tests.postgres_server import NoPostgres, join_run, server_url

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


@pytest.fixture(params=[SQLITE_MEMORY, SQLITE_FILE, POSTGRES])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh database of every kind."""
    yield from _fresh_database(request, tmp_path)


@pytest.fixture(params=[SQLITE_FILE, POSTGRES])
def shared_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh database of every kind that several processes can open."""
    yield from _fresh_database(request, tmp_path)


@pytest.fixture(params=[POSTGRES])
def postgres_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh PostgreSQL schema."""
    yield from _fresh_database(request, tmp_path)


def _fresh_database(request: pytest.FixtureRequest, directory: Path) -> Iterator[str]:
    if request.param == "postgres":
        request.getfixturevalue("postgres_server")
    with fresh_database(request.param, directory) as url:
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
