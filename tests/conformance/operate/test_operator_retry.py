"""An operator's retry returns a step to Pending with all that ended with it, and nothing undoes it."""

from __future__ import annotations

import pytest

from stepwell import ActionRefused, State, StepNotFound
from stepwell.run.finish import Finisher
from tests.conformance.support.engine import Engine, failed, returned


def mend(engine: Engine, *labels: str) -> None:
    """What made these steps fail has been put right: from now on they succeed."""
    for label in labels:
        engine.change("""UPDATE steps SET arguments = '{"outcome": "ok"}' WHERE id = :id""", id=engine.refs[label].id)


def retry(engine: Engine, label: str) -> set[str]:
    """Retry it; returns the labels of all that came back."""
    names = {ref.id: name for name, ref in engine.refs.items()}
    retried = engine.app.retry(engine.refs[label], who="ann", why="it is mended")
    return {names[step_id] for step_id in retried.revived}


def refuse_retry(engine: Engine, label: str, said: str) -> None:
    before = engine.snapshot()
    with pytest.raises(ActionRefused, match=said):
        engine.app.retry(engine.refs[label], who="ann")
    assert engine.snapshot() == before


def all_completed(engine: Engine, *but: str) -> bool:
    return set(engine.states(*(set(engine.refs) - set(but))).values()) == {"Completed"}


@pytest.mark.parametrize("outcome", ["fail", "stop", "raise"])
def test_a_retried_step_starts_from_zero(engine: Engine, outcome: str) -> None:
    engine.plant(f"a:{outcome}")
    engine.settle()
    spent = engine["a"]
    assert spent.attempts == (4 if outcome == "raise" else 1)
    assert retry(engine, "a") == {"a"}
    step = engine["a"]
    assert (str(step.state), step.reason, step.actor) == ("Pending", "operator: it is mended", "operator:ann")
    assert (step.attempts, step.retries, step.not_completed, step.rescues) == (0, 0, 0, 0)
    assert (step.error_message, step.error_stack_trace, step.dispatch_after) == (None, None, None)
    assert (step.started_at, step.completed_at, step.duration) == (None, None, None)
    assert step.lease_token == spent.lease_token
    engine.settle()
    assert (engine["a"].attempts, engine["a"].error_message) == (spent.attempts, spent.error_message)
    mend(engine, "a")
    retry(engine, "a")
    engine.settle()
    assert engine.state("a") == "Completed"


def test_a_cancelled_step_can_be_retried(engine: Engine) -> None:
    engine.plant("a > b(c)")
    engine.app.cancel(engine.refs["a"], who="ann")
    engine.tick()
    assert engine.states() == {"a": "Cancelled", "b": "NotRunnable", "c": "NotRunnable"}
    assert retry(engine, "a") == {"a", "b", "c"}
    engine.settle()
    assert all_completed(engine)


# Behind it ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "back"),
    [
        ("bad:fail > b > c(d(e)) > f", "bad b c d e f"),
        ("bad:fail, b<bad, c<b, d<c(e > f)", "bad b c d e f"),
        ("bad:fail(x)", "bad x"),
        ("root(bad:fail > b(c > d), other > e)", "root bad b c d other e"),
        ("root(bad:fail), after<root, then<after", "root bad after then"),
        ("root(p(bad:fail) > q) > r", "root p bad q r"),
    ],
)
def test_dependents_are_retried_with_the_step(engine: Engine, line: str, back: str) -> None:
    engine.plant(line)
    engine.settle()
    gone = {label for label, state in engine.states().items() if state != "Completed"}
    assert gone == set(back.split())
    mend(engine, "bad")
    assert retry(engine, "bad") == set(back.split())
    engine.settle()
    assert all_completed(engine)


def test_what_also_stands_behind_another_failure_waits_for_that_one_too(engine: Engine) -> None:
    engine.plant("one:fail, two:fail > behind")
    engine.plant("three:fail, four:fail, after<three+four")
    engine.settle()
    mend(engine, "one", "two", "three", "four")
    for first, second, behind in (("one", "two", "behind"), ("three", "four", "after")):
        retry(engine, first)
        engine.settle()
        assert engine.states(first, behind) == {first: "Completed", behind: "NotRunnable"}
        retry(engine, second)
        engine.settle()
        assert engine.states(second, behind) == {second: "Completed", behind: "Completed"}


# Below it -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["fail", "stop"])
def test_descendants_that_failed_with_a_parent_are_retried_with_it(engine: Engine, outcome: str) -> None:
    engine.plant(f"root:{outcome}(a(deep) > b, !h)")
    engine.settle()
    assert engine.reasons("a", "deep", "b", "h") == dict.fromkeys(("a", "deep", "b"), "parent_failed") | {
        "h": "dormant"
    }
    mend(engine, "root")
    assert retry(engine, "root") == {"root", "a", "deep", "b"}
    engine.settle()
    assert all_completed(engine, "h")
    assert engine["h"].reason == "dormant"


def test_descendants_that_were_cancelled_with_a_parent_are_retried_with_it(engine: Engine) -> None:
    engine.plant("root(a(deep) > b)")
    engine.app.cancel(engine.refs["root"], who="ann")
    engine.tick()
    assert set(engine.states().values()) == {"Cancelled"}
    assert retry(engine, "root") == {"root", "a", "deep", "b"}
    engine.settle()
    assert all_completed(engine)


def test_what_was_cancelled_by_itself_before_its_parent_stays_so(engine: Engine) -> None:
    engine.plant("root(a, b)")
    engine.app.cancel(engine.refs["a"], who="ann")
    engine.app.cancel(engine.refs["root"], who="ann")
    engine.tick()
    assert retry(engine, "root") == {"root", "b"}
    engine.settle()
    assert engine.states() == {"root": "Failed", "a": "Cancelled", "b": "Completed"}


def test_a_parent_whose_own_code_is_done_is_not_run_again_but_its_failed_children_are(engine: Engine) -> None:
    engine.plant("root(a:fail, b:stop, c > d)")
    engine.settle()
    mend(engine, "a", "b")
    assert retry(engine, "root") == {"root", "a", "b", "d"}
    assert engine.states() == {"root": "Running", "a": "Pending", "b": "Pending", "c": "Completed", "d": "Pending"}
    engine.settle()
    assert all_completed(engine)
    assert [t.attempt for t in engine.history("root") if t.to_state is State.RUNNING] == [1, 0]


def test_a_waiting_parent_that_was_cancelled_waits_again(engine: Engine) -> None:
    engine.plant("root(a > b)")
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "root")
        returned(Finisher(engine.app.database), claim, "kept")
        engine.tick()
        engine.app.cancel(engine.refs["root"], who="ann")
        engine.tick()
    assert retry(engine, "root") == {"root", "a", "b"}
    assert engine.state("root") == "Running"
    engine.settle()
    assert all_completed(engine)
    assert engine["root"].response == "kept"


def test_a_parent_that_would_fail_again_at_once_is_not_retried(engine: Engine) -> None:
    engine.plant("root(a, b)")
    engine.app.cancel(engine.refs["a"], who="ann")
    engine.settle()
    assert engine.state("root") == "Failed"
    refuse_retry(engine, "root", rf"step {engine.refs['a'].id} \(a\) was cancelled by hand")
    assert retry(engine, "a") == {"a", "root"}
    engine.settle()
    assert all_completed(engine)


# Above it -------------------------------------------------------------------------------------------------------------


def test_ancestors_that_failed_only_through_their_children_run_again(engine: Engine) -> None:
    engine.plant("l0(l1(l2(l3(bad:fail), beside) > after)) > next")
    engine.settle()
    mend(engine, "bad")
    assert retry(engine, "bad") == {"l0", "l1", "l2", "l3", "bad", "after", "next"}
    assert set(engine.states("l0", "l1", "l2", "l3").values()) == {"Running"}
    assert {engine[label].reason for label in ("l0", "l3", "after")} == {"revived"}
    engine.settle()
    assert all_completed(engine)


def test_an_ancestor_that_has_other_failed_children_fails_again_afterwards(engine: Engine) -> None:
    engine.plant("root(a:fail, b:fail)")
    engine.settle()
    mend(engine, "a")
    assert retry(engine, "a") == {"root", "a"}
    engine.settle()
    assert engine.states() == {"root": "Failed", "a": "Completed", "b": "Failed"}
    assert f"step {engine.refs['a'].id} " not in (engine["root"].error_message or "")


@pytest.mark.parametrize(("end", "said"), [("cancel", "Cancelled"), ("fail", "Failed, error"), ("stop", "Stopped")])
def test_below_an_ancestor_that_ended_otherwise_a_retry_is_refused(engine: Engine, end: str, said: str) -> None:
    engine.plant(f"root{':' + end if end != 'cancel' else ''}(mid(a))")
    if end == "cancel":
        engine.app.cancel(engine.refs["root"], who="ann")
    engine.settle()
    assert engine.state("a") in ("Cancelled", "Failed")
    root, mid = engine.refs["root"].id, engine.refs["mid"].id
    refuse_retry(engine, "mid", rf"its ancestor step {root} \(root\) has ended \({said}")
    refuse_retry(engine, "a", rf"its ancestor step {mid} \(mid\) has ended")


def test_below_a_parent_that_was_completed_or_skipped_by_hand_a_retry_is_refused(engine: Engine) -> None:
    engine.plant("one(a:fail), two(b:fail)")
    engine.settle()
    engine.app.complete(engine.refs["one"], who="ann")
    engine.app.skip(engine.refs["two"], who="ann")
    engine.settle()
    refuse_retry(engine, "a", r"its ancestor step \d+ \(one\) has ended \(Completed")
    refuse_retry(engine, "b", r"its ancestor step \d+ \(two\) has ended \(Skipped")


# The order of retries -------------------------------------------------------------------------------------------------


def end_both(engine: Engine, how: str) -> None:
    """`bad` fails, what waits for it cannot run any more, and then `root` ends for a reason of its own."""
    with engine.worker() as runner:
        bad, root = engine.claim(runner, "bad", "root")
        finisher = Finisher(engine.app.database)
        failed(finisher, bad, "no")
        engine.tick()
        if how == "raise":
            failed(finisher, root, "no")
        else:
            returned(finisher, root, None)
            engine.app.transition_to(engine.refs["root"], State(how), who="ann")
        engine.tick()


@pytest.mark.parametrize("order", ["bad root", "root bad"])
@pytest.mark.parametrize("how", ["raise", "Failed", "Stopped", "Cancelled"])
@pytest.mark.parametrize(
    "line",
    [
        "bad, root(waits<bad)",
        "bad, root(waits<bad > later)",
        "bad, root(waits<bad(below), after<waits)",
        "bad, root(mid(waits<bad))",
        "bad, root(beside, waits<bad, !handler)",
    ],
)
def test_what_waits_below_an_ancestor_runs_in_whatever_order_both_are_retried(
    engine: Engine, line: str, how: str, order: str
) -> None:
    """Nothing is revived below a step that has ended: what failed outside was retried first, and only a skip helped."""
    engine.plant(line)
    end_both(engine, how)
    for label in order.split():
        retry(engine, label)
        engine.settle()
    assert all_completed(engine, "handler")
    assert engine.app.sweep() == []


@pytest.mark.parametrize("action", ["skip", "complete"])
def test_what_waits_below_an_ancestor_is_revived_with_it_after_the_failure_was_concluded(
    engine: Engine, action: str
) -> None:
    engine.plant("bad, root(waits<bad)")
    end_both(engine, "raise")
    getattr(engine.app, action)(engine.refs["bad"], who="ann")
    assert engine.state("waits") == "NotRunnable"
    assert retry(engine, "root") == {"root", "waits"}
    engine.settle()
    assert all_completed(engine, "bad")


def test_what_still_stands_behind_a_failure_is_not_revived_with_its_parent(engine: Engine) -> None:
    engine.plant("bad, root(waits<bad)")
    end_both(engine, "raise")
    assert retry(engine, "root") == {"root"}
    assert engine.state("waits") == "NotRunnable"


@pytest.mark.parametrize("order", ["bad front", "front bad"])
def test_what_waits_below_a_step_that_could_not_run_runs_in_whatever_order_both_are_retried(
    engine: Engine, order: str
) -> None:
    engine.plant("bad:fail, front:fail, root<front(waits<bad > later)")
    engine.settle()
    mend(engine, "bad", "front")
    for label in order.split():
        retry(engine, label)
        engine.settle()
    assert all_completed(engine)


@pytest.mark.parametrize("end", [State.CANCELLED, State.FAILED, State.STOPPED])
def test_a_parent_that_ended_by_itself_is_retried_before_its_cancelled_children(engine: Engine, end: State) -> None:
    """Each refused until the other was retried, so that only a skip of the children helped."""
    engine.plant("root(a, b)")
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "root")
        returned(Finisher(engine.app.database), claim, None)
        for label in ("a", "b"):
            engine.app.cancel(engine.refs[label], who="ann")
        engine.app.transition_to(engine.refs["root"], end, who="ann")
        engine.tick()
    refuse_retry(engine, "a", r"its ancestor step \d+ \(root\) has ended")
    assert retry(engine, "root") == {"root"}
    assert engine.state("root") == "Running"
    engine.settle()
    assert engine.reasons() == {"root": "children_failed", "a": "operator", "b": "operator"}
    assert retry(engine, "a") == {"a", "root"}
    assert retry(engine, "b") == {"b"}
    engine.settle()
    assert all_completed(engine)


def test_the_refusal_of_a_retry_names_what_waits_for_a_failure_elsewhere(engine: Engine) -> None:
    engine.plant("bad:fail, root(waits<bad)")
    engine.settle()
    mend(engine, "bad")
    refuse_retry(engine, "root", r"\(waits\) waits for a step that failed. Retry that one")
    assert retry(engine, "bad") == {"bad", "root", "waits"}
    engine.settle()
    assert all_completed(engine)


# What cannot be retried -----------------------------------------------------------------------------------------------


def test_only_what_failed_or_was_cancelled_can_be_retried(engine: Engine) -> None:
    engine.plant("done, passed:skip, bad:fail > behind, !idle")
    engine.plant("calm, !asleep")
    engine.settle()
    refuse_retry(engine, "done", r"\(done\) is Completed .*it has already concluded")
    refuse_retry(engine, "passed", r"\(passed\) is Skipped .*it has already concluded")
    refuse_retry(engine, "behind", r"\(behind\) is NotRunnable .*retry that step")
    refuse_retry(engine, "asleep", r"\(asleep\) is NotRunnable .*exception handler")
    engine.plant("waiting, queued, running")
    with engine.worker(slots=1) as runner:
        engine.claim(runner, "running")
        for label in ("waiting", "queued", "running"):
            refuse_retry(engine, label, "it has not ended")
    with pytest.raises(StepNotFound):
        engine.app.retry(123_456, who="ann")


def test_a_step_whose_lease_is_not_released_cannot_be_retried(engine: Engine) -> None:
    engine.plant("a")
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "a")
        engine.app.cancel(engine.refs["a"], who="ann")
        refuse_retry(engine, "a", rf"its process is still running \(worker {runner.worker.id}\)")
        Finisher(engine.app.database).release_lease(claim)
    assert retry(engine, "a") == {"a"}
    engine.settle()
    assert all_completed(engine)


def test_nor_can_a_parent_while_the_lease_of_a_descendant_is_not_released(engine: Engine) -> None:
    engine.plant("root(mid(a))")
    finisher = Finisher(engine.app.database)
    with engine.worker() as runner:
        for label in ("root", "mid"):
            (claim,) = engine.claim(runner, label)
            returned(finisher, claim, None)
        (claim,) = engine.claim(runner, "a")
        engine.app.cancel(engine.refs["root"], who="ann")
        engine.tick()
        refuse_retry(engine, "root", r"\(a\) is Cancelled, but its process is still running")
        assert returned(finisher, claim, None) is None
        finisher.release_lease(claim)
    retry(engine, "root")
    engine.settle()
    assert all_completed(engine)


# Handlers -------------------------------------------------------------------------------------------------------------


def test_a_handler_that_was_cancelled_while_dormant_is_dormant_again_after_a_retry(engine: Engine) -> None:
    engine.plant("root(a:fail, !h1, !h2(part))")
    engine.app.cancel(engine.refs["root"], who="ann")
    engine.tick()
    assert set(engine.states().values()) == {"Cancelled"}
    retry(engine, "root")
    engine.tick()
    assert engine.reasons("h1", "h2", "part") == {"h1": "dormant", "h2": "dormant", "part": "parent_not_runnable"}
    engine.settle()
    assert engine.states() == {
        "root": "Failed", "a": "Failed", "h1": "Completed", "h2": "Completed", "part": "Completed",
    }  # fmt: skip


def test_a_handler_that_was_cancelled_at_work_waits_for_a_failure_again(engine: Engine) -> None:
    """What it was to clean up after is being tried again: as long as that has not failed there is nothing to do."""
    engine.plant("root(a:fail, !h)")
    with engine.worker() as runner:
        finisher = Finisher(engine.app.database)
        (claim,) = engine.claim(runner, "root")
        returned(finisher, claim, None)
        (claim,) = engine.claim(runner, "a")
        failed(finisher, claim, "no")
        (claim,) = engine.claim(runner, "h")
        engine.app.cancel(engine.refs["root"], who="ann")
        engine.tick()
        finisher.release_lease(claim)
    mend(engine, "a")
    retry(engine, "root")
    engine.tick()
    assert (engine.state("h"), engine["h"].reason) == ("NotRunnable", "dormant")
    engine.settle()
    assert engine.states() == {"root": "Completed", "a": "Completed", "h": "NotRunnable"}


def test_a_handler_that_failed_can_be_retried_by_itself(engine: Engine) -> None:
    engine.plant("root(a:fail, !h:fail > !after)")
    engine.settle()
    assert engine.states("h", "after") == {"h": "Failed", "after": "NotRunnable"}
    mend(engine, "h")
    assert retry(engine, "h") == {"root", "h", "after"}
    engine.settle()
    assert engine.states() == {"root": "Failed", "a": "Failed", "h": "Completed", "after": "Completed"}


# It lasts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["root(bad:fail > b, c:fail)", "bad:fail > b, c:fail", "root(bad:fail(x), c(y:fail))"])
def test_a_retry_is_not_undone_by_the_next_ticks(engine: Engine, line: str) -> None:
    engine.plant(line)
    engine.settle()
    mend(engine, "bad")
    retry(engine, "bad")
    assert engine.tick() >= 0
    assert engine.tick() == 0
    assert engine.state("bad") == "Pending"
    assert engine.states().get("root", "Running") == "Running"
    engine.settle()
    assert engine.state("bad") == "Completed"


def test_a_retry_under_a_paused_breaker_waits(engine: Engine) -> None:
    engine.plant("root(bad:fail > b)")
    engine.settle()
    mend(engine, "bad")
    engine.app.breaker.pause("ann")
    retry(engine, "bad")
    assert engine.app.run_until_idle() == 0
    assert engine.states() == {"root": "Running", "bad": "Pending", "b": "Pending"}
    engine.app.breaker.resume("ann")
    engine.settle()
    assert all_completed(engine)


def test_a_step_can_be_retried_again_and_again(engine: Engine) -> None:
    engine.plant("root(bad:fail > b)")
    for _ in range(3):
        engine.settle()
        assert engine.states() == {"root": "Failed", "bad": "Failed", "b": "NotRunnable"}
        assert retry(engine, "bad") == {"root", "bad", "b"}
        refuse_retry(engine, "bad", "it has not ended")
    assert engine.path("bad")[-2:] == ["Failed", "Pending"]


def test_every_step_that_returns_to_pending_records_the_operator(engine: Engine) -> None:
    engine.plant("root(bad:fail > b(c), !h)")
    engine.settle()
    retry(engine, "bad")
    for label in ("root", "bad", "b", "c"):
        last = engine.history(label)[-1]
        assert last.actor == "operator:ann"
        assert last.reason == ("operator: it is mended" if label == "bad" else "revived")
