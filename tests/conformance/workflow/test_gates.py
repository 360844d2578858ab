"""Gates: steps that wait for an answer by a person or a program."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from stepwell import Permanent, State, Stepwell, Workflow
from stepwell.events import GroupStalled
from stepwell.model.errors import ActionRefused
from stepwell.workflow.run import Run
from tests.conformance.support.asides import Aside
from tests.conformance.support.engine import Engine

DAY = 86_400.0


def fetch() -> int:
    return 7


def fails_first(fails: bool = False) -> int:
    if fails:
        raise Permanent("no luck")
    return 7


def ship(approval: bool) -> str:
    return f"approved: {approval}"


def declare(app: Stepwell, **gate: Any) -> Workflow[Any]:
    flow = app.workflows("shop").workflow("ordering")
    flow.step()(fetch)
    flow.gate("approval", after=["fetch"], result=bool, expires=timedelta(days=1), **gate)
    flow.step()(ship)
    return flow


def opened(engine: Engine) -> Run:
    """A workflow whose gate is open."""
    run = declare(engine.app).start()
    engine.app.run_until_idle()
    return run


def status(engine: Engine, run: Run, step: str = "approval") -> str | None:
    rows = engine.sql("SELECT status FROM steps_agenda WHERE step_id = :id", id=run.step(step).id)
    return rows[0]["status"] if rows else None


def insert_answer(engine: Engine, run: Run, answer: str, by: str = "billing") -> None:
    """Plain SQL, at the time of the test's clock."""
    engine.change(
        "INSERT INTO step_answers (step_id, answer, answered_by, answered_at) VALUES (:id, :answer, :by, :at)",
        id=run.step("approval").id,
        answer=answer,
        by=by,
        at=engine.clock.now(),
    )


# Opening ------------------------------------------------------------------------------------------------------


def test_a_gate_opens_when_its_trigger_rule_is_met_and_is_never_open_dispatched_or_claimed(engine: Engine) -> None:
    run = declare(engine.app).start()
    assert status(engine, run) is None
    engine.app.run_until_idle()
    assert (run.step("approval").state, status(engine, run)) == (State.PENDING, "gate")
    engine.tick()
    with engine.worker() as runner:
        assert runner.claim(10) == []
    run.answer("approval", True, who="alice")
    engine.settle()
    assert [each.to_state for each in engine.app.history(run.step("approval").id)] == ["Pending", "Completed"]
    assert run.step("ship").response == "approved: True"


def test_what_waits_for_a_gate_that_is_not_open_yet_says_that_it_will_need_an_answer(engine: Engine) -> None:
    run = declare(engine.app).start()
    for step in ("ship", "approval"):
        roots = [root for root in engine.app.explain(run.step(step)).roots if root.condition == "gate"]
        assert [(root.steps, root.is_later) for root in roots] == [((run.step("approval").id,), True)]
        assert roots[0].advice == (f"stepwell workflows answer {run.id} approval JSON",)


def test_a_gate_whose_condition_is_not_met_is_skipped(engine: Engine) -> None:
    run = declare(engine.app, when={"fetch": 8}).start()
    engine.settle()
    approval, ship = run.step("approval"), run.step("ship")
    assert (approval.state, approval.reason) == (State.SKIPPED, "condition_not_met")
    assert (ship.state, ship.reason) == (State.SKIPPED, "input_skipped")
    assert run.state == "complete"


def test_an_open_gate_makes_the_workflow_in_progress(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("one_gate")
    flow.gate("approval", result=bool)
    run = flow.start()
    assert run.state == "pending"
    engine.tick()
    assert run.state == "in_progress"
    run.answer("approval", True, who="alice")
    assert run.state == "complete"


def test_alarms_doctor_and_stats_leave_gates_out(engine: Engine) -> None:
    app, run = engine.app, opened(engine)
    stalled: list[GroupStalled] = []
    app.events.on(GroupStalled)(stalled.append)
    reaper = app.reaper()
    for _ in range(5):
        with engine.worker():
            reaper.round()
        engine.clock.advance(600)
    assert stalled == []
    assert app.reader.unserved_lanes() == []
    assert app.stats().agenda == {"gate": 1}
    assert app.sweep() == []
    assert run.execution().eligible == 0


def test_explain_says_that_a_gate_waits_for_an_answer(engine: Engine) -> None:
    run = declare(engine.app).start()
    assert "workers" not in [each.condition for each in engine.app.explain(run.step("approval")).obstacles]
    engine.app.run_until_idle()
    found = engine.app.explain(run.step("approval"))
    assert [each.condition for each in found.obstacles] == ["gate"]
    assert "waiting for an answer" in found.summary
    assert found.obstacles[0].changes_at == engine.clock.now() + timedelta(days=1)


def test_the_expiry_of_a_gate_is_not_the_moment_at_which_anything_behind_it_goes_on(engine: Engine) -> None:
    run = opened(engine)
    found = engine.app.explain(run.step("ship"))
    assert [root.condition for root in found.roots if root.changes_at] == ["gate"]
    assert (found.expected_at, engine.app.explain(run.step("approval")).expected_at) == (None, None)


# Answers ------------------------------------------------------------------------------------------------------


def test_an_early_answer_is_refused_whoever_gives_it(engine: Engine) -> None:
    app, run = engine.app, declare(engine.app).start()
    gate = run.step("approval")
    with pytest.raises(ActionRefused, match="not open yet"):
        run.answer("approval", True, who="alice")
    with pytest.raises(ActionRefused, match="not open yet"):
        app.complete(gate, who="alice", response=True)
    with pytest.raises(ActionRefused, match="not open yet"):
        app.transition_to(gate, State.COMPLETED, who="alice")
    with pytest.raises(Exception, match="not an open gate"):
        insert_answer(engine, run, "true")
    app.run_until_idle()
    assert status(engine, run) == "gate"
    run.answer("approval", False, who="alice")
    assert run.step("approval").response is False


def test_an_answer_to_a_gate_that_cannot_open_any_more_is_refused(engine: Engine) -> None:
    app = engine.app
    flow = app.workflows("shop").workflow("ordering")
    flow.step(arguments={"fails": True}, name="fetch")(fails_first)
    flow.gate("approval", after=["fetch"], result=bool)
    run = flow.start()
    engine.settle()
    ways: list[Callable[[], None]] = [
        lambda: run.answer("approval", True, who="alice"),
        lambda: app.complete(run.step("approval"), who="alice", response=True),
    ]
    for answer in ways:
        with pytest.raises(ActionRefused, match="is NotRunnable") as refused:
            answer()
        assert "children" not in str(refused.value)


def test_the_first_answer_wins_and_a_later_one_is_refused_naming_it(engine: Engine) -> None:
    app, run = engine.app, opened(engine)
    run.answer("approval", True, who="alice")
    ways: list[Callable[[], None]] = [
        lambda: run.answer("approval", False, who="bob"),
        lambda: app.complete(run.step("approval"), who="bob", response=False),
    ]
    for late in ways:
        with pytest.raises(ActionRefused, match=r"answered by operator:alice"):
            late()
    with pytest.raises(Exception, match="answered already"):
        insert_answer(engine, run, "false")
    assert run.step("approval").response is True


def test_a_completion_by_hand_is_an_answer_too(engine: Engine) -> None:
    run = opened(engine)
    engine.app.complete(run.step("approval"), who="alice", why="by phone", response=True)
    with pytest.raises(ActionRefused, match=r"answered by operator:alice"):
        run.answer("approval", False, who="bob")
    assert run.step("approval").reason == "operator: by phone"


def test_an_answer_of_another_type_is_refused(engine: Engine) -> None:
    run = opened(engine)
    with pytest.raises(ActionRefused, match="boolean"):
        run.answer("approval", "yes", who="alice")
    with pytest.raises(ActionRefused, match="boolean"):
        engine.app.complete(run.step("approval"), who="alice", response="yes")
    assert status(engine, run) == "gate"


def test_a_gate_is_answered_by_plain_sql(engine: Engine) -> None:
    run = opened(engine)
    insert_answer(engine, run, "true")
    assert run.step("approval").state is State.PENDING
    engine.tick()
    step = run.step("approval")
    assert (step.state, step.response, step.actor) == (State.COMPLETED, True, "operator:billing")
    engine.settle()
    assert run.state == "complete"


@pytest.mark.parametrize("answer", ['"yes"', "null"])
def test_a_wrong_answer_by_plain_sql_is_refused_visibly_and_the_gate_stays_open(
    engine: Engine, answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = opened(engine)
    insert_answer(engine, run, answer)
    with caplog.at_level(logging.WARNING, "stepwell.workflows"):
        engine.tick()
    assert "billing" in caplog.text
    assert status(engine, run) == "gate"
    found = engine.app.explain(run.step("approval"))
    assert "billing" in found.summary
    assert "boolean" in found.summary
    assert run.step("approval").decision["refused"]["answered_by"] == "billing"
    insert_answer(engine, run, "true", by="alice")
    engine.tick()
    assert run.step("approval").response is True


@pytest.mark.parametrize(
    ("answer", "by"), [('"\\u0000"', "billing"), ("true", "b" * 300), ("[" * 70 + "]" * 70, "billing")]
)
def test_an_answer_that_cannot_be_stored_stops_no_tick(engine: Engine, answer: str, by: str) -> None:
    flow = engine.app.workflows("shop").workflow("any_answer")
    flow.gate("approval")
    run, other = flow.start(), flow.start()
    engine.settle()
    insert_answer(engine, run, answer, by)
    insert_answer(engine, other, "7")
    engine.settle()
    assert (status(engine, run), other.state) == ("gate", "complete")
    assert run.step("approval").decision["refused"]["why"]


def test_an_answer_by_plain_sql_that_leaves_the_value_out_is_null(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("one_gate")
    flow.gate("approval")
    run = flow.start()
    engine.tick()
    engine.change(
        "INSERT INTO step_answers (step_id, answered_by, answered_at) VALUES (:id, 'billing', :at)",
        id=run.step("approval").id,
        at=engine.clock.now(),
    )
    engine.tick()
    assert (run.step("approval").state, run.state) == (State.COMPLETED, "complete")


# Expiry -------------------------------------------------------------------------------------------------------


def test_a_gate_expires_counted_from_its_opening(engine: Engine) -> None:
    run = declare(engine.app).start()
    engine.clock.advance(5 * DAY)
    engine.app.run_until_idle()
    engine.clock.advance(DAY - 1)
    engine.tick()
    assert status(engine, run) == "gate"
    assert run.execution().next_change_at == engine.clock.now() + timedelta(seconds=1)
    engine.clock.advance(1)
    engine.tick()
    step = run.step("approval")
    assert (step.state, step.reason) == (State.FAILED, "gate_expired")
    assert run.step("ship").state is State.NOT_RUNNABLE
    assert run.state == "error"


def test_a_gate_expires_while_its_workflow_is_paused_and_dispatching_is_off(engine: Engine) -> None:
    app, run = engine.app, opened(engine)
    run.pause(who="alice")
    app.breaker.pause(who="alice")
    engine.tick()
    assert app.sweep() == []
    assert status(engine, run) == "gate"
    engine.clock.advance(DAY)
    engine.tick()
    assert run.step("approval").reason == "gate_expired"
    assert run.state == "error"


def test_an_open_gate_of_a_paused_workflow_takes_an_answer(engine: Engine) -> None:
    run = opened(engine)
    run.pause(who="alice")
    run.answer("approval", True, who="bob")
    engine.settle()
    assert run.step("ship").state is State.PENDING
    run.resume(who="alice")
    engine.settle()
    assert run.state == "complete"


def test_a_gate_does_not_open_while_its_workflow_is_paused(engine: Engine) -> None:
    run = declare(engine.app).start()
    run.pause(who="alice")
    engine.settle()
    run.resume(who="alice")
    engine.settle()
    assert status(engine, run) == "gate"
    run.pause(who="alice")
    run.resume(who="alice")
    opened_at = run.step("approval").decision["opened_at"]
    engine.clock.advance(60)
    engine.settle()
    assert run.step("approval").decision["opened_at"] == opened_at


def test_an_answer_after_the_expiry_is_refused_before_a_tick_has_seen_it(engine: Engine) -> None:
    run = opened(engine)
    engine.clock.advance(DAY)
    with pytest.raises(ActionRefused, match="expired"):
        run.answer("approval", True, who="alice")
    insert_answer(engine, run, "true")
    engine.tick()
    assert run.step("approval").reason == "gate_expired"


def test_a_retry_opens_an_expired_gate_for_a_fresh_period(engine: Engine) -> None:
    app, run = engine.app, opened(engine)
    engine.clock.advance(2 * DAY)
    insert_answer(engine, run, "true")  # too late
    engine.tick()
    app.retry(run.step("approval"), who="alice")
    engine.tick()
    assert status(engine, run) == "gate"
    assert run.execution().next_change_at == engine.clock.now() + timedelta(days=1)
    assert run.step("ship").state is State.PENDING
    engine.clock.advance(DAY / 2)
    insert_answer(engine, run, "false")
    engine.settle()
    assert run.step("ship").response == "approved: False"
    assert run.state == "complete"


def test_a_retried_gate_is_not_decided_again(engine: Engine) -> None:
    app = engine.app
    run = declare(app, when={"context.go": True}).start({"go": True})
    app.run_until_idle()
    found = run.step("approval").decision["when"]
    engine.clock.advance(DAY)
    engine.tick()
    engine.change("UPDATE steps_workflows SET context = '{\"go\": false}'")
    app.retry(run.step("approval"), who="alice")
    engine.tick()
    assert (status(engine, run), run.step("approval").decision["when"]) == ("gate", found)


def test_an_operator_completes_an_expired_gate(engine: Engine) -> None:
    run = opened(engine)
    engine.clock.advance(DAY)
    engine.tick()
    engine.app.complete(run.step("approval"), who="alice", response=True)
    engine.settle()
    assert run.state == "complete"


def test_a_cancelled_gate_forgets_its_unapplied_answer_when_it_is_retried(engine: Engine) -> None:
    app, run = engine.app, opened(engine)
    insert_answer(engine, run, "true")
    app.cancel(run.step("approval"), who="alice")
    engine.settle()
    app.retry(run.step("approval"), who="alice")
    engine.settle()
    assert status(engine, run) == "gate"
    run.answer("approval", False, who="bob")
    engine.settle()
    assert run.step("ship").response == "approved: False"


# Retries of upstream steps ------------------------------------------------------------------------------------


def two_sources(app: Stepwell, trigger: Any) -> Workflow[Any]:
    flow = app.workflows("shop").workflow("ordering")
    flow.step(arguments={"fails": True}, name="left")(fails_first)
    flow.step(name="right")(fails_first)
    flow.gate("approval", after=["left", "right"], trigger=trigger, result=bool, expires=timedelta(days=1))
    return flow


def test_an_open_gate_closes_while_its_upstream_step_is_retried_and_opens_again(engine: Engine) -> None:
    run = two_sources(engine.app, "all_ended").start()
    engine.settle()
    assert status(engine, run) == "gate"
    engine.change("UPDATE steps SET arguments = '{}' WHERE template = 'left'")
    engine.clock.advance(DAY / 2)
    engine.app.retry(run.step("left"), who="alice")
    with pytest.raises(ActionRefused, match="not open"):
        run.answer("approval", True, who="alice")
    engine.app.run_until_idle()
    assert status(engine, run) == "gate"
    assert run.execution().next_change_at == engine.clock.now() + timedelta(days=1)
    run.answer("approval", True, who="alice")
    assert run.state == "complete"


def test_a_gate_whose_rule_is_still_met_stays_open_while_an_upstream_step_is_retried(engine: Engine) -> None:
    run = two_sources(engine.app, "any_concluded").start()
    engine.app.run_until_idle()
    expires = run.execution().next_change_at
    assert status(engine, run) == "gate"
    engine.clock.advance(DAY / 2)
    engine.app.retry(run.step("left"), who="alice")
    assert status(engine, run) == "gate"
    engine.app.run_until_idle()
    assert status(engine, run) == "gate"
    assert run.execution().next_change_at == expires
    engine.clock.advance(DAY / 2)
    engine.tick()
    assert run.step("approval").reason == "gate_expired"


# Two answers at the same moment -------------------------------------------------------------------------------


@pytest.mark.postgres
class TestTwoSessions:
    @pytest.fixture
    def database_url(self, postgres_url: str) -> str:
        return postgres_url

    @pytest.mark.parametrize("first", ["answer", "complete", "sql"])
    @pytest.mark.parametrize("second", ["answer", "complete", "sql"])
    def test_of_two_simultaneous_answers_the_first_wins(self, engine: Engine, first: str, second: str) -> None:
        app, run = engine.app, opened(engine)
        gate = run.step("approval").id
        ways = {
            "answer": lambda one, value: one.workflow_engine.gates.answer(gate, value, "someone"),
            "complete": lambda one, value: one.complete(gate, who="someone", response=value),
            "sql": lambda one, value: one.database.transact(
                lambda tx: tx.execute(
                    "INSERT INTO step_answers (step_id, answer, answered_by, answered_at) "
                    "VALUES (%(id)s, %(answer)s, 'someone', %(at)s)",
                    {"id": gate, "answer": str(value).lower(), "at": engine.clock.now()},
                )
            ),
        }
        asides: list[Aside] = []

        def hold(tx: object) -> None:
            """The first answer is written, but not committed."""
            if not asides:
                asides.append(Aside(app.database.url, engine.clock, lambda aside: ways[second](aside, False)))
                asides[0].waits()

        if first == "sql":
            with psycopg.connect(app.database.url) as connection:
                connection.execute(
                    "INSERT INTO step_answers (step_id, answer, answered_by, answered_at) "
                    "VALUES (%s, 'true', 'one', %s)",
                    (gate, engine.clock.now()),
                )
                hold(connection)
        else:
            app.database.hooks.before_commit("workflow", lambda tx, touched: hold(tx))
            ways[first](app, True)
        with pytest.raises(Exception, match=r"answered|not an open gate"):
            asides[0].ends()
        engine.settle()
        assert run.step("approval").response is True
        assert run.state == "complete"
