"""An app that is bound to another database for one test, and put back afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell import Stepwell, StepwellError
from stepwell.events import StepCompleted
from stepwell.model.clock import SystemClock
from stepwell.testing import ManualClock, bound, settle


def app_with_job(url: str = "sqlite://") -> Stepwell:
    app = Stepwell(url)

    @app.job
    def double(number: int) -> int:
        return 2 * number

    return app


def test_the_jobs_of_the_app_run_on_the_other_database_and_the_own_one_is_not_touched(tmp_path: Path) -> None:
    app = app_with_job(f"sqlite:///{tmp_path}/production.db")
    with bound(app):
        handle = app.jobs["double"].enqueue(21)
        settle(app)
        assert handle.result(0) == 42
    assert not (tmp_path / "production.db").exists()


def test_afterwards_everything_is_as_before() -> None:
    app = app_with_job()
    before = app.enqueue("double", {"number": 1})
    parts, database = vars(app).copy(), app.database
    with bound(app):
        assert app.steps() == []
        assert app.database is not database
    assert vars(app) == parts
    assert app.database is database
    assert isinstance(app.clock, SystemClock)
    assert [step.id for step in app.steps()] == [before.id]


def test_it_is_put_back_after_an_error_in_the_test_or_in_the_url() -> None:
    app = app_with_job()
    database = app.database
    with pytest.raises(ZeroDivisionError), bound(app):
        raise ZeroDivisionError
    with pytest.raises(StepwellError, match="unknown database type"), bound(app, "mysql://nowhere"):
        pass
    assert app.database is database
    assert app.run_until_idle() == 0


def test_each_block_has_a_fresh_database_and_a_file_keeps_its_steps(tmp_path: Path) -> None:
    app = app_with_job()
    with bound(app):
        app.enqueue("double", {"number": 1})
    with bound(app):
        assert app.steps() == []
    for expected in (0, 1):
        with bound(app, f"sqlite:///{tmp_path}/kept.db"):
            assert len(app.steps()) == expected
            app.enqueue("double", {"number": 1})


def test_blocks_can_be_nested() -> None:
    app = app_with_job()
    with bound(app):
        app.enqueue("double", {"number": 1})
        with bound(app):
            assert app.steps() == []
        assert len(app.steps()) == 1


def test_subscribers_of_the_app_are_called_and_those_of_the_test_are_removed() -> None:
    app = app_with_job()
    seen: list[str] = []
    app.events.on(StepCompleted)(lambda event: seen.append("app"))
    with bound(app):
        app.events.on(StepCompleted)(lambda event: seen.append("test"))
        app.enqueue("double", {"number": 1})
        settle(app)
    assert sorted(seen) == ["app", "test"]  # each subscriber has a thread of its own
    app.enqueue("double", {"number": 1})
    app.run_until_idle()
    assert seen[2:] == ["app"]


def test_declared_workflows_start_on_the_other_database() -> None:
    app = Stepwell("postgresql://nowhere.invalid/production")
    flow = app.workflows("shop").workflow("fulfil")
    flow.step(one)
    for _ in range(2):
        with bound(app, clock=ManualClock()):
            run = flow.start()
            settle(app)
            assert (run.state, run.result(flow["one"], 0)) == ("complete", 1)


def one() -> int:
    return 1
