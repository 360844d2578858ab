"""What returns with a step that an operator retried, skipped or completed: when it starts, and what does not return."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import force_setattr

from stepwell import ActionRefused, IllegalTransition, Reschedule, Retry, State
from stepwell.run.ending import Ending
from stepwell.run.finish import Finisher
from tests.conformance.support.engine import Engine, parse, raised, returned

TOMORROW = timedelta(days=1)


def plant_planned(engine: Engine, line: str, *planned: str) -> datetime:
    """Plant a line whose named steps are planned for tomorrow; returns that time."""
    due = engine.clock.now() + TOMORROW
    drafts = parse(line)
    for label in planned:
        force_setattr(drafts[label], "dispatch_after", due)  # the drafts refer to each other, so no copies
    engine.refs |= dict(zip(drafts, engine.app.enqueue_many(drafts.values()), strict=True))
    return due


def settle_today(engine: Engine) -> None:
    """Run everything that is due, without moving the clock."""
    engine.app.run_until_idle()


def mend(engine: Engine, label: str) -> None:
    engine.change("""UPDATE steps SET arguments = '{"outcome": "ok"}' WHERE id = :id""", id=engine.refs[label].id)


# What was planned ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["retry", "skip", "complete"])
@pytest.mark.parametrize(
    ("line", "planned"),
    [
        ("bad:fail > later > last", ["later"]),
        ("bad:fail, later<bad, last<later", ["later", "last"]),
        ("root(bad:fail > later(part), beside)", ["later"]),
        ("bad:fail > later(part)", ["part"]),
    ],
)
def test_what_returns_with_a_step_keeps_the_time_for_which_it_was_planned(
    engine: Engine, action: str, line: str, planned: list[str]
) -> None:
    due = plant_planned(engine, line, *planned)
    settle_today(engine)
    assert engine.state(planned[0]) == "NotRunnable"
    mend(engine, "bad")
    getattr(engine.app, action)(engine.refs["bad"], who="ann")
    settle_today(engine)
    assert [engine[label].dispatch_after for label in planned] == [due] * len(planned)
    assert {engine.state(label) for label in planned} == {"Pending"}
    engine.settle()
    assert engine.clock.now() >= due
    assert set(engine.states().values()) <= {"Completed", "Skipped"}


def test_descendants_of_a_retried_parent_keep_the_time_for_which_they_were_planned(engine: Engine) -> None:
    due = plant_planned(engine, "root:fail(now, later)", "later")
    settle_today(engine)
    mend(engine, "root")
    engine.app.retry(engine.refs["root"], who="ann")
    settle_today(engine)
    assert engine.states("now", "later") == {"now": "Completed", "later": "Pending"}
    assert engine["later"].dispatch_after == due


def test_the_retried_step_itself_starts_now(engine: Engine) -> None:
    plant_planned(engine, "later", "later")
    engine.app.cancel(engine.refs["later"], who="ann")
    engine.app.retry(engine.refs["later"], who="ann")
    assert engine["later"].dispatch_after is None
    settle_today(engine)
    assert engine.state("later") == "Completed"


@pytest.mark.parametrize("outcome", [Retry(in_=3600), Reschedule(in_=3600)])
def test_the_delay_of_an_earlier_attempt_is_not_a_plan(engine: Engine, outcome: Exception) -> None:
    engine.plant("root(slow)")
    finisher = Finisher(engine.app.database)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "root")
        returned(finisher, claim, None)
        (claim,) = engine.claim(runner, "slow")
        raised(finisher, claim, outcome)
        engine.app.cancel(engine.refs["root"], who="ann")
        engine.tick()
    engine.app.retry(engine.refs["root"], who="ann")
    assert engine["slow"].dispatch_after is None
    settle_today(engine)
    assert engine.state("slow") == "Completed"


def test_the_pause_after_an_outage_is_not_a_plan(engine: Engine) -> None:
    """It is handed back, so its attempt does not count: it still has been claimed."""
    engine.plant("root(cut)")
    finisher = Finisher(engine.app.database)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "root")
        returned(finisher, claim, None)
        (claim,) = engine.claim(runner, "cut")
        finisher.write(claim, Ending(verb="hand_back", in_=3600.0))
        assert engine["cut"].attempts == 0
        engine.app.cancel(engine.refs["root"], who="ann")
        engine.tick()
    engine.app.retry(engine.refs["root"], who="ann")
    assert engine["cut"].dispatch_after is None


def test_a_plan_survives_many_retries(engine: Engine) -> None:
    due = plant_planned(engine, "bad:fail > later", "later")
    for _ in range(3):
        settle_today(engine)
        engine.app.retry(engine.refs["bad"], who="ann")
        assert engine["later"].dispatch_after == due


def test_a_plan_that_has_passed_is_forgotten(engine: Engine) -> None:
    plant_planned(engine, "bad:fail > later", "later")
    settle_today(engine)
    engine.clock.advance(2 * TOMORROW.total_seconds())
    engine.app.retry(engine.refs["bad"], who="ann")
    assert engine["later"].dispatch_after is None


# Nothing is stranded -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "root(bad:fail, !h(c), x<c)",
        "root(bad:fail, !h(c > d), x<d, y<x)",
        "root(bad:fail, !h(c), z(w<c))",
        "root(bad:fail, !h(c), z<c(w > v))",
    ],
)
def test_what_stands_behind_the_child_of_a_handler_runs_when_the_handler_does(engine: Engine, line: str) -> None:
    engine.plant(line)
    engine.settle()
    assert engine.states("root", "bad") == {"root": "Failed", "bad": "Failed"}
    others = set(engine.refs) - {"root", "bad"}
    assert set(engine.states(*others).values()) == {"Completed"}


def test_what_stands_behind_the_child_of_a_failed_handler_is_not_runnable_again(engine: Engine) -> None:
    engine.plant("root(bad:fail, !h(c:fail), x<c)")
    engine.settle()
    assert (engine.state("x"), engine["x"].reason) == ("NotRunnable", "predecessor_failed")


@pytest.mark.parametrize(
    ("line", "skipped"),
    [("root(calm, !h(c), x<c)", "h"), ("bad:fail, p<bad(k), x<k", "p"), ("bad:fail, p<bad(q(k)), x<k, y<x", "p")],
)
def test_what_stands_behind_a_step_that_is_skipped_with_its_parent_may_run(
    engine: Engine, line: str, skipped: str
) -> None:
    engine.plant(line)
    engine.tick()
    if "bad" in engine.refs:
        engine.app.run_until_idle()
    assert engine.state("x") == "NotRunnable"
    engine.app.skip(engine.refs[skipped], who="ann")
    engine.settle()
    assert engine.state("x") == "Completed"


def test_a_parent_that_could_not_run_is_not_completed_over_its_children(engine: Engine) -> None:
    engine.plant("bad:fail > parent(child)")
    engine.settle()
    before = engine.snapshot()
    with pytest.raises(ActionRefused, match="children that never ran: skip it"):
        engine.app.complete(engine.refs["parent"], who="ann")
    assert engine.snapshot() == before
    engine.app.skip(engine.refs["parent"], who="ann")
    engine.settle()
    assert engine.states("parent", "child") == {"parent": "Skipped", "child": "Skipped"}


def test_a_step_without_children_that_could_not_run_can_be_completed(engine: Engine) -> None:
    engine.plant("bad:fail > stuck > last")
    engine.settle()
    engine.app.complete(engine.refs["stuck"], who="ann")
    engine.app.skip(engine.refs["bad"], who="ann")
    engine.settle()
    assert engine.states("stuck", "last") == {"stuck": "Completed", "last": "Completed"}


# Handlers run once ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["root(bad:fail, !h > !then, !other)", "bad:fail, !h > !then, !other"])
def test_a_retry_names_the_handlers_that_have_run_and_will_not_run_again(engine: Engine, line: str) -> None:
    engine.plant(line)
    engine.settle()
    handlers = sorted(engine.refs[label].id for label in ("h", "then", "other"))
    runs = {label: len(engine.history(label)) for label in ("h", "then", "other")}
    retried = engine.app.retry(engine.refs["bad"], who="ann")
    assert retried.handlers_done == handlers
    engine.settle()
    assert engine.state("bad") == "Failed"
    assert {label: len(engine.history(label)) for label in runs} == runs


def test_a_retry_does_not_name_handlers_that_still_may_run(engine: Engine) -> None:
    engine.plant("root(a, bad, !h)")
    engine.app.cancel(engine.refs["bad"], who="ann")
    engine.settle()
    assert engine["h"].reason == "dormant"
    assert engine.app.retry(engine.refs["bad"], who="ann").handlers_done == []
    engine.plant("asked:fail, !alone:fail")
    engine.settle()
    assert engine.app.retry(engine.refs["alone"], who="ann").handlers_done == []


# To Running ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["fail", "stop", "raise"])
def test_a_step_whose_own_code_is_not_done_cannot_be_moved_to_running(engine: Engine, outcome: str) -> None:
    engine.plant(f"leaf:{outcome}, parent:{outcome}(child)")
    engine.settle()
    before = engine.snapshot()
    for label in ("leaf", "parent"):
        with pytest.raises(IllegalTransition, match="its own code is not done"):
            engine.app.transition_to(engine.refs[label], State.RUNNING, who="ann")
    assert engine.snapshot() == before


def test_a_parent_whose_own_code_is_done_can_be_moved_to_running(engine: Engine) -> None:
    engine.plant("parent(child:fail/ok)")
    engine.settle()
    engine.app.transition_to(engine.refs["parent"], State.RUNNING, who="ann")
    assert engine.state("parent") == "Running"
