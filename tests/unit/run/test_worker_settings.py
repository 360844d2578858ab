"""Bad settings of a worker are refused before anything of it exists."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell import State, Stepwell, StepwellError
from stepwell.testing import behave


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Stepwell]:
    with Stepwell(f"sqlite:///{tmp_path}/stepwell.db") as app:
        behave(app)
        yield app


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"executor": "proces"}, "did you mean process"),
        ({"slots": 0}, "at least 1"),
        ({"slots": 2.0}, "whole number"),
        ({"alive_seconds": 0.09}, "expected 0.1 to 86400 seconds"),  # as in stepwell.toml
        ({"alive_seconds": math.nan}, "expected .* seconds"),
        ({"alive_seconds": math.inf}, "expected .* seconds"),
        ({"grace_seconds": -1.0}, "expected .* seconds"),
    ],
)
def test_what_makes_no_sense_is_refused(app: Stepwell, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(StepwellError, match=message):
        app.worker(**settings)
    assert app.database.read(lambda tx: tx.fetch("SELECT id FROM steps_workers", {})) == []


def test_one_queue_may_be_given_by_its_name(app: Stepwell) -> None:
    worker = app.worker(queues="candles")
    assert worker.row.queues == ("candles",)
    worker.row.unregister()


def test_a_step_is_moved_by_hand_by_its_handle(app: Stepwell) -> None:
    handle = app.jobs["behave"].enqueue()
    handle.transition_to(State.CANCELLED, who="me", why="a mistake")
    assert handle.step().state is State.CANCELLED
    assert app.history(handle)[-1].actor == "operator:me"
