"""What a tick leaves behind: its row in the tick log, its lines in the log, an error of a phase."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stepwell import Stepwell
from stepwell.dispatch import tick as ticks
from stepwell.dispatch.dispatcher import BREAKER_CHECK_SECONDS
from stepwell.dispatch.phases import dispatch
from stepwell.store import Conflict
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP, run, run_level, tick

# The rows ----------------------------------------------------------------------------------------------------


def test_a_tick_that_changed_rows_is_kept_with_what_each_phase_did(engine: Engine) -> None:
    with engine.worker():
        engine.plant("one, two", group=GROUP)
        report = tick(engine.app, owner="me")
    (kept,) = engine.app.ticks(GROUP)
    assert (kept.id, kept.group, kept.owner, kept.error) == (report.tick, GROUP, "me", None)
    assert kept.steps_dispatched == 2
    assert [(phase["phase"], phase["rows"]) for phase in kept.progress] == [
        (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0), (10, 2),
    ]  # fmt: skip
    assert [phase["found"] for phase in kept.progress if "found" in phase] == [2]
    assert kept.started_at == kept.ended_at == engine.clock.now()
    assert engine["one"].tick_id == report.tick
    assert engine.history("one")[-1].actor == f"tick:{report.tick}"


def test_a_tick_that_ended_early_is_kept_with_the_phases_up_to_that_one(engine: Engine) -> None:
    engine.plant("root(child)", group=GROUP)
    engine.app.cancel(engine.refs["root"], who="tester")
    tick(engine.app)
    (kept,) = engine.app.ticks(GROUP)
    assert [(phase["phase"], phase["rows"]) for phase in kept.progress] == [(2, 0), (3, 1)]


def test_a_tick_that_only_opened_gates_is_kept(engine: Engine) -> None:
    engine.add("later", delay=10, group=GROUP)
    engine.clock.advance(11)
    report = tick(engine.app)
    assert (report.changed, report.opened) == (1, 1)
    assert [kept.id for kept in engine.app.ticks()] == [report.tick]


def test_a_tick_that_changed_nothing_is_not_kept(engine: Engine) -> None:
    engine.plant("nobody_serves_me", group=GROUP)
    assert not tick(engine.app).changed
    assert engine.app.ticks() == []


def test_the_group_shows_its_last_tick_and_its_last_dispatch(engine: Engine) -> None:
    with engine.worker():
        engine.plant("one", group="gamma")
        engine.clock.advance(5)
        tick(engine.app, "gamma")
    (gamma,) = [group for group in engine.app.groups() if group.group == "gamma"]
    assert (gamma.lock_owner, gamma.lock_deadline, gamma.current_tick_id) == (None, None, None)
    assert gamma.last_tick_completed == gamma.last_selected_at == engine.clock.now()


@pytest.mark.slow
@pytest.mark.parametrize("quiet_ticks_between", [False, True])
def test_the_tick_log_is_bounded_for_every_group(engine: Engine, quiet_ticks_between: bool) -> None:
    """Also when the ids of a group's ticks fall into a pattern: two groups in turn, every other tick quiet."""
    engine.app.breaker.pause("tester")
    for number in range(130):
        for group in ("alpha", "beta"):
            engine.add(f"{group}{number}", group=group, delay=1)
        engine.clock.advance(2)
        for group in ("alpha", "beta"):
            assert tick(engine.app, group, ticks_kept=10).opened == 1
            if quiet_ticks_between:
                assert not tick(engine.app, group, ticks_kept=10).changed
    for group in ("alpha", "beta"):
        kept = [row.id for row in engine.app.ticks(group, limit=1_000)]
        assert 10 <= len(kept) <= 10 + 100
        assert kept[0] == max(kept)


# The lines ---------------------------------------------------------------------------------------------------

MS = r"\d+\.\d\dms"


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "stepwell.dispatcher"]


def _assert_log(caplog: pytest.LogCaptureFixture, *patterns: str) -> None:
    lines = _lines(caplog)
    assert len(lines) == len(patterns), lines
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), f"{line!r} is not {pattern!r}"


START = (r"\[TICK START\] Group: alpha \| Time: 00:00:00\.000000", r"\[LOCK ACQUIRED\] Starting dispatch cycle")
BREAKER = (
    "CIRCUIT BREAKER: Step dispatching is DISABLED globally",
    "All state management phases completed successfully",
    r"Skipping pending step dispatch phase \(circuit breaker active\)",
    r"\[TICK SKIPPED\] Circuit breaker active - can_dispatch_steps = false",
)
QUIET = tuple(
    rf"\[Phase {number}\] {name}: NO \| Duration: {MS}"
    for number, name in enumerate(
        (
            "skip_children",
            "cascade_cancellations",
            "promote_handlers",
            "parents_to_failed",
            "cascade_failures",
            "parents_to_completed",
            "exhausted_retries",
        ),
        start=2,
    )
)


def test_the_log_of_a_tick_that_dispatches_is_in_the_agreed_format(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with engine.worker():
        engine.plant("one, two, three, four, five", group=GROUP)
        with caplog.at_level(logging.INFO, "stepwell.dispatcher"):
            tick(engine.app)
    _assert_log(
        caplog,
        *START,
        *QUIET,
        rf"\[Phase 9\] pick: Found 5 steps \| Duration: {MS}",
        rf"\[Phase 10\] dispatch: Dispatched 5 steps \| Duration: {MS}",
        rf"\[TICK END\] Total: {MS} \| Dispatched: 5",
    )


def test_the_log_of_a_tick_that_ends_early_stops_at_the_phase_that_changed_rows(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.plant("root(one, two)", group=GROUP)
    engine.app.cancel(engine.refs["root"], who="tester")
    with caplog.at_level(logging.INFO, "stepwell.dispatcher"):
        tick(engine.app)
    _assert_log(
        caplog,
        *START,
        QUIET[0],
        rf"\[Phase 3\] cascade_cancellations: YES \(2 rows\) \| Duration: {MS}",
        rf"\[TICK END\] Total: {MS} \| Dispatched: 0",
    )


def test_the_log_says_that_the_circuit_breaker_is_off(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    engine.app.breaker.pause("tester")
    with engine.worker(), caplog.at_level(logging.INFO, "stepwell.dispatcher"):
        engine.plant("one", group=GROUP)
        tick(engine.app)
    _assert_log(
        caplog,
        *START,
        *QUIET,
        *BREAKER,
        rf"\[TICK END\] Total: {MS} \| Dispatched: 0",
    )


def test_a_dispatcher_logs_the_breaker_once_a_minute_while_steps_wait(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.app.breaker.pause("tester")
    dispatcher = engine.app.dispatcher()
    with engine.worker(), caplog.at_level(logging.INFO, "stepwell.dispatcher"):
        assert dispatcher.round() == []
        assert _lines(caplog) == []  # no step waits
        engine.plant("one", group=GROUP)
        engine.clock.advance(BREAKER_CHECK_SECONDS)
        for _ in range(3):
            assert dispatcher.round() == []
        _assert_log(caplog, *BREAKER)
        engine.clock.advance(61)
        dispatcher.round()
        _assert_log(caplog, *BREAKER, *BREAKER)


def test_a_dispatcher_of_other_groups_does_not_log_the_breaker(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.app.breaker.pause("tester")
    engine.plant("one", group="beta")
    with caplog.at_level(logging.INFO, "stepwell.dispatcher"):
        engine.app.dispatcher(["alpha"]).round()
    assert _lines(caplog) == []


def test_a_tick_that_is_locked_out_logs_nothing(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    engine.change(
        "UPDATE steps_dispatcher SET lock_owner = 'x', lock_deadline = :later WHERE \"group\" = 'alpha'",
        later=engine.clock.now().replace(year=2030),
    )
    with caplog.at_level(logging.DEBUG, "stepwell.dispatcher"):
        assert tick(engine.app).locked_out
    assert _lines(caplog) == []


# An error in a phase -----------------------------------------------------------------------------------------


@contextmanager
def sabotage(app: Stepwell, reason: str) -> Iterator[None]:
    """While it lasts, no step can be given this reason: the database itself refuses."""
    if app.database.dialect == "sqlite":
        make = [
            f"CREATE TRIGGER sabotage BEFORE UPDATE OF reason ON steps WHEN NEW.reason = '{reason}' "
            "BEGIN SELECT RAISE(ABORT, 'the disk is on fire'); END"
        ]
        undo = ["DROP TRIGGER sabotage"]
    else:
        make = [
            "CREATE FUNCTION sabotage() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the disk is on fire'; END $$",
            f"CREATE TRIGGER sabotage BEFORE UPDATE ON steps FOR EACH ROW WHEN (NEW.reason = '{reason}') "
            "EXECUTE FUNCTION sabotage()",
        ]
        undo = ["DROP TRIGGER sabotage ON steps", "DROP FUNCTION sabotage"]

    def execute(statements: list[str]) -> None:
        app.database.transact(lambda tx: [tx.execute(statement, {}) for statement in statements])

    execute(make)
    try:
        yield
    finally:
        execute(undo)


@pytest.mark.parametrize("reason", ["parent_skipped", "parent_cancelled", "promoted", "children_failed"])
def test_an_error_in_a_phase_is_logged_releases_the_lock_and_shows_in_the_tick_log(
    engine: Engine, caplog: pytest.LogCaptureFixture, reason: str
) -> None:
    engine.plant("skipped(a), cancelled(b), root(bad:fail, !handler:fail)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        run_level(engine, runner, "bad")
        if reason != "promoted":
            run_level(engine, runner, "handler")
        for claim in runner.claim(100):
            run(runner, claim)
    engine.app.skip(engine.refs["skipped"], who="tester")
    engine.app.cancel(engine.refs["cancelled"], who="tester")
    already = len(engine.app.ticks())

    with sabotage(engine.app, reason), caplog.at_level(logging.ERROR, "stepwell.dispatcher"):
        reports = engine.app.dispatcher().run_until_quiet()

        assert isinstance(reports[-1].error, Exception)
        assert "the disk is on fire" in str(reports[-1].error)
        newest = engine.app.ticks()[0]
        assert len(engine.app.ticks()) > already
        assert "the disk is on fire" in (newest.error or "")
        assert newest.ended_at is not None
        assert any(line.startswith("[TICK ERROR] group alpha:") for line in _lines(caplog))
        assert [group.lock_owner for group in engine.app.groups() if group.group == GROUP] == [None]

    engine.settle()
    assert engine.states("a", "b", "root", "handler") == {
        "a": "Skipped",
        "b": "Cancelled",
        "root": "Failed",
        "handler": "Failed",
    }


def test_an_error_in_one_group_does_not_keep_the_others_from_their_ticks(engine: Engine) -> None:
    engine.plant("here(a)", group="alpha")
    engine.app.cancel(engine.refs["here"], who="tester")
    engine.plant("there", group="beta")
    with engine.worker(), sabotage(engine.app, "parent_cancelled"):
        reports = {report.group: report for report in engine.app.dispatch_once()}
    assert reports["alpha"].error is not None
    assert reports["beta"].dispatched == 1
    engine.settle()


def test_what_a_phase_did_before_an_error_in_a_later_one_stays(engine: Engine) -> None:
    engine.plant("skipped(a), cancelled(b), one(c)", group=GROUP)
    engine.app.skip(engine.refs["one"], who="tester")
    assert tick(engine.app).ended_early
    engine.app.skip(engine.refs["skipped"], who="tester")
    engine.app.cancel(engine.refs["cancelled"], who="tester")
    with sabotage(engine.app, "parent_cancelled"):
        (report,) = engine.app.dispatch_once(GROUP)
    assert report.error is not None
    assert engine.states("a", "b") == {"a": "Skipped", "b": "Pending"}
    kept = engine.app.ticks()[0]
    assert {phase["name"]: phase["rows"] for phase in kept.progress if phase["rows"]} == {"skip_children": 1}
    engine.settle()
    assert engine.state("b") == "Cancelled"


def test_a_dispatch_that_met_a_conflict_is_logged_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def dispatch_and_collide(*arguments: Any) -> int:
        tries.append(dispatch(*arguments))
        if len(tries) == 1:
            raise Conflict("somebody was in the way")
        return tries[-1]

    monkeypatch.setattr(ticks, "dispatch", dispatch_and_collide)
    with engine.worker():
        engine.plant("one", group=GROUP)
        report = tick(engine.app)
    assert tries == [1, 1]
    assert [ran.phase.number for ran in report.phases] == [2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert report.dispatched == engine.app.ticks()[0].steps_dispatched == 1


def test_a_dispatch_that_was_rolled_back_is_not_logged(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def dispatch_and_fail(*arguments: Any) -> int:
        dispatch(*arguments)
        raise RuntimeError("the lights went out")

    monkeypatch.setattr(ticks, "dispatch", dispatch_and_fail)
    with engine.worker():
        engine.plant("one", group=GROUP)
        (report,) = engine.app.dispatch_once()
    assert (report.dispatched, engine.state("one")) == (0, "Pending")
    assert engine.app.ticks()[0].steps_dispatched == 0


def test_the_progress_of_a_tick_is_json_that_plain_sql_can_read(engine: Engine) -> None:
    with engine.worker():
        engine.plant("one", group=GROUP)
        tick(engine.app)
    (row,) = engine.sql("SELECT progress FROM steps_dispatcher_ticks")
    assert json.loads(row["progress"])[-1]["name"] == "dispatch"
