"""Every conformance test that uses `app` also holds the invariants, whatever else it is about."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stepwell import Stepwell
from stepwell.testing import ManualClock
from tests.conformance.support.engine import Engine


@pytest.fixture
def engine(app: Stepwell, clock: ManualClock) -> Engine:
    """An engine whose steps do as they are told; checked for the promises when the test is over."""
    return Engine(app, clock)


@pytest.fixture
def lawless_app(database_url: str, clock: ManualClock) -> Iterator[Stepwell]:
    """An app for tests that push rows around by plain SQL: nothing is checked afterwards."""
    app = Stepwell(database_url, clock=clock).open()
    try:
        yield app
    finally:
        app.close()


@pytest.fixture(autouse=True)
def _promises_hold(request: pytest.FixtureRequest) -> Iterator[None]:
    if "app" not in request.fixturenames:
        yield
        return
    app: Stepwell = request.getfixturevalue("app")
    yield
    assert [str(violation) for violation in app.check_invariants()] == []
    assert app.sweep() == []
