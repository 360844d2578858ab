"""The pytest plugin of Stepwell: fixtures that bind an app to a fresh database.

Nothing of Stepwell is imported until one of them is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from stepwell import Stepwell
    from stepwell.testing import ManualClock

Bind: TypeAlias = "Callable[..., Stepwell]"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("stepwell_app", "the app of the fixture stepwell_app, as module:variable")
    parser.addini("stepwell_url", "the database of tests; default: a fresh one in memory", default="sqlite://")


@pytest.fixture
def stepwell_clock() -> ManualClock:
    """A clock that moves only when the test moves it."""
    from stepwell.testing import ManualClock

    return ManualClock()


@pytest.fixture
def stepwell_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an empty database for one test: in memory, or like the one of the ini option `stepwell_url`."""
    named = str(request.config.getini("stepwell_url"))
    if named == "sqlite://":
        yield named
        return
    from stepwell.store.scratch import scratch_database

    with scratch_database(named) as url:
        yield url


@pytest.fixture
def stepwell_bind(stepwell_clock: ManualClock, stepwell_url: str) -> Iterator[Bind]:
    """Binds an app to a fresh database with `stepwell_clock`, until the end of the test: `stepwell_bind(app)`."""
    from stepwell.testing import bound

    with ExitStack() as stack:

        def bind(app: Stepwell, url: str | None = None) -> Stepwell:
            return stack.enter_context(bound(app, url or stepwell_url, clock=stepwell_clock))

        yield bind


@pytest.fixture
def stepwell_app(request: pytest.FixtureRequest, stepwell_bind: Bind) -> Stepwell:
    """The app that the ini option `stepwell_app` names, bound to a fresh database."""
    name = str(request.config.getini("stepwell_app") or "")
    if not name:
        raise pytest.UsageError(
            "the fixture stepwell_app does not know your app: set `stepwell_app = module:variable` in the "
            "configuration of pytest, or use the fixture stepwell_bind: stepwell_bind(app)"
        )
    from stepwell.service.locate import load_app

    return stepwell_bind(load_app(name))
