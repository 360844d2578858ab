"""Overviews are frozen records: a misspelt field is an error, and nobody changes what another holds."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Stepwell
from tests.conformance.support.engine import Engine


def _records(app: Stepwell) -> list[Any]:
    stats = app.stats()
    return [stats, *stats.groups, *stats.workers, *app.workers(), *app.groups(), *app.ticks(), *app.reader.jobs()]


def test_overviews_are_frozen_records(engine: Engine) -> None:
    engine.app.record_jobs()
    with engine.worker():
        engine.plant("one two")
        engine.app.dispatch_once()
        records = _records(engine.app)
    names = {type(record).__name__ for record in records}
    assert names == {"Stats", "GroupFigures", "LiveWorker", "WorkerInfo", "GroupRow", "TickRow", "JobInfo"}
    for record in records:
        with pytest.raises(AttributeError):
            setattr(record, record.__struct_fields__[0], None)


def test_counts_of_states_are_complete(engine: Engine) -> None:
    assert set(engine.app.stats().states.values()) == {0}
    assert len(engine.app.stats().states) == 9
