"""An idle tick writes nothing: it needs no right to write at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stepwell import Stepwell
from stepwell.dispatch.dispatcher_part import MAX_EMPTY_POLL_SECONDS, DispatcherPart
from stepwell.dispatch.tick import TickReport
from stepwell.run.inline import InlineRunner
from stepwell.store import Wake
from stepwell.testing import ManualClock
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP, run_level, tick

pytestmark = pytest.mark.sqlite_file  # an idle round uses only the reading connection


@contextmanager
def _forbidden_to_write(app: Stepwell) -> Iterator[Stepwell]:
    """An app on the same database that fails as soon as it writes anything, were it a lock."""
    if app.database.dialect == "postgres":
        with Stepwell(f"{app.database.url}%20-cdefault_transaction_read_only%3Don", clock=app.clock) as reader:
            yield reader
        return
    connection = app.database.connections.writer()  # type: ignore[attr-defined]
    connection.execute("PRAGMA query_only = ON")
    try:
        yield app
    finally:
        connection.execute("PRAGMA query_only = OFF")


def _everything_that_waits(engine: Engine, runner: InlineRunner) -> None:
    engine.plant("held, > behind, !asleep")
    engine.plant("parent(child > next)")
    engine.plant("base, dependent<base")
    engine.plant("failed:fail > doomed")
    engine.add("delayed", delay=3600)
    engine.add("unserved", queue="candles")
    engine.plant("paused")
    engine.app.pause_workflow(engine.refs["paused"], who="tester")
    run_level(engine, runner, "parent", "failed")
    engine.claim(runner, "child")
    engine.plant(", ".join(f"full{number}" for number in range(40)))
    engine.tick()


def test_an_idle_round_writes_nothing_whatever_waits(engine: Engine) -> None:
    runner = engine.app.inline_runner(queues=["default"], slots=8)
    _everything_that_waits(engine, runner)
    with _forbidden_to_write(engine.app) as reader:
        assert reader.dispatcher().round() == []
    runner.close()
    engine.tick()
    with _forbidden_to_write(engine.app) as reader:
        assert reader.dispatcher().round() == []


def test_an_idle_round_writes_nothing_while_dispatching_is_paused(engine: Engine) -> None:
    with engine.worker() as runner:
        engine.app.breaker.pause("tester")
        engine.plant("ready, root(child), soon")
        engine.add("delayed", delay=10)
        engine.tick()
        engine.clock.advance(20)
        runner.heartbeat()
        engine.tick()
        with _forbidden_to_write(engine.app) as reader:
            assert reader.dispatcher().round() == []


def test_an_idle_round_writes_nothing_while_a_retried_step_holds_back_one_that_was_ready(engine: Engine) -> None:
    """`all_ended` was met by a failure; the retry of that failure takes it back."""
    engine.plant("base:fail/ok", group=GROUP)
    engine.add("join", depends_on=[engine.refs["base"]], trigger_rule="all_ended")
    with engine.worker() as runner:
        run_level(engine, runner, "base")
    engine.tick()
    assert engine.app.explain(engine.refs["join"]).obstacles[0].condition == "workers"
    engine.app.retry(engine.refs["base"], who="tester")
    with engine.worker() as runner:
        engine.claim(runner, "base")
        engine.tick()
        with _forbidden_to_write(engine.app) as reader:
            assert reader.dispatcher().round() == []
        assert engine.state("join") == "Pending"


def test_a_round_that_has_work_does_write(engine: Engine) -> None:
    """The test of the tests above."""
    with engine.worker():
        engine.plant("ready")
        with _forbidden_to_write(engine.app) as reader, pytest.raises(Exception, match=r"read-?only"):
            reader.dispatcher().round()


def test_an_idle_round_changes_no_row_of_any_table(engine: Engine) -> None:
    runner = engine.app.inline_runner(queues=["default"], slots=8)
    _everything_that_waits(engine, runner)

    def dump() -> dict[str, Any]:
        tables = ("steps_dispatcher", "steps_dispatcher_ticks", "steps_settings", "steps_workers", "steps_workflows")
        rest = {table: sorted(engine.sql(f"SELECT * FROM {table}"), key=repr) for table in tables}
        return engine.snapshot() | rest

    before = dump()
    for _ in range(3):
        engine.app.dispatch_once()
    assert dump() == before
    runner.close()


def test_a_forced_tick_that_changed_nothing_leaves_no_tick_row(engine: Engine) -> None:
    assert not tick(engine.app).changed
    assert engine.app.ticks() == []


def test_a_look_that_found_nothing_is_not_repeated_before_four_times_as_long_as_it_took(
    app: Stepwell, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside busy workers a look takes long, and they tell of something all the time."""
    dispatcher = app.dispatcher()
    looks: list[bool] = []

    def look(*, open_too: bool) -> list[TickReport]:
        looks.append(open_too)
        clock.advance(0.01)
        return []

    monkeypatch.setattr(dispatcher, "round", look)
    part = DispatcherPart(dispatcher, app.database)
    part.round([Wake.DECISIONS])
    assert len(looks) == 1
    assert part.round([Wake.DECISIONS]) == pytest.approx(0.04)
    clock.advance(0.039)
    assert part.round([]) == pytest.approx(0.001)
    assert len(looks) == 1
    clock.advance(0.0011)
    part.round([])
    assert len(looks) == 2, "what was told meanwhile is not forgotten"


def test_patience_has_a_limit_and_ends_with_what_is_found(
    app: Stepwell, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatcher = app.dispatcher()
    found: list[TickReport] = []

    def look(*, open_too: bool) -> list[TickReport]:
        clock.advance(0.5)
        return found

    monkeypatch.setattr(dispatcher, "round", look)
    part = DispatcherPart(dispatcher, app.database)
    part.round([Wake.DECISIONS])
    assert part.round([Wake.DECISIONS]) == pytest.approx(MAX_EMPTY_POLL_SECONDS), "not the 2 s of four times"
    clock.advance(0.5)
    found.append(TickReport(group="alpha", opened=1))
    assert part.round([]) == 0.0
    assert part._not_before == 0.0
