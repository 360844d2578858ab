"""A clock just before the first slots of 2026, and a job that can be told to fail."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stepwell import Stepwell
from stepwell.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC))


@pytest.fixture
def reports(app: Stepwell) -> Stepwell:
    @app.job(backoff=0)
    def report(fails: bool = False) -> str:
        if fails:
            raise ValueError("no data")
        return "done"

    return app
