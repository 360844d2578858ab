"""Actions in bulk: a frozen preview, its execution item by item, and what a crash leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell import NewStep, Stepwell
from stepwell.model.actors import By
from stepwell.model.errors import ActionRefused, OperationNotFound, StepwellError
from stepwell.operate.operations import Operation, Preview, executing
from stepwell.store import Transaction
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import run


def outcomes(engine: Engine, operation: Operation | Preview) -> dict[str, str | None]:
    labels = {ref.id: label for label, ref in engine.refs.items()}
    return {labels[item.step_id or 0]: item.outcome for item in operation.items()}


def also(engine: Engine, operation: Operation | Preview) -> dict[str, str | None]:
    labels = {ref.id: label for label, ref in engine.refs.items()}
    return {labels[item.step_id or 0]: item.effect for item in operation.items(role="also")}


def messages(engine: Engine, operation: Operation | Preview) -> dict[str, str | None]:
    labels = {ref.id: label for label, ref in engine.refs.items()}
    return {labels[item.step_id or 0]: item.message for item in operation.items()}


def refusal(work: Any, *arguments: Any, **keywords: Any) -> str:
    with pytest.raises(ActionRefused) as refused:
        work(*arguments, **keywords)
    return str(refused.value)


# Previews ---------------------------------------------------------------------------------------------------


def test_a_preview_changes_no_step_and_lists_what_would_be_done_and_what_returns_with_it(engine: Engine) -> None:
    engine.plant("bad:fail > behind > last")
    engine.plant("other:fail, fine")
    engine.settle()
    before = engine.states()
    preview = engine.app.operations.preview("retry", state="Failed")
    assert engine.states() == before
    assert {item.expected for item in preview.items()} == {"done"}
    assert also(engine, preview) == {"behind": "revived", "last": "revived"}
    counts = preview.counts()
    assert (counts.targets, counts.done, counts.refused, counts.also) == (2, 2, 0, {"revived": 2})
    assert [(each.action, each.state, each.steps) for each in preview.by_action()] == [("behave", "Failed", 2)]


@pytest.mark.parametrize("kind", ["retry", "cancel", "skip", "complete", "fail", "stop", "reset_attempts"])
def test_a_preview_refuses_what_the_single_action_refuses_with_the_same_reason(engine: Engine, kind: str) -> None:
    engine.plant("ended:fail(below), passed:skip, fine, source:fail, sink<source, plain:fail")
    engine.plant("tree(bad:fail > behind(deep), !cleanup)")
    engine.settle()
    engine.plant("root(kid), waits, other")
    with engine.worker() as runner:
        (root, _) = engine.claim(runner, "root", "other")
        run(runner, root)
        engine.app.cancel(engine.refs["other"], who="ben")  # its process still runs
        preview = engine.app.operations.preview(kind, action="behave")
        items = {item.step_id: item for item in preview.items()}
        assert len(items) == len(engine.refs)
        for ref in engine.refs.values():
            assert (items[ref.id].expected, items[ref.id].message) == tried_out(engine, kind, ref.id), items[ref.id]
    assert {item.expected for item in items.values()} == {"done", "refused"}


def tried_out(engine: Engine, kind: str, step_id: int) -> tuple[str, str | None]:
    """What the action does to the step now; all of it is rolled back."""
    found: list[tuple[str, str | None]] = []

    def work(tx: Transaction) -> None:
        by = By("operator:ann", None, engine.clock.now())
        try:
            engine.app.operations.kinds[kind].act(tx, step_id, by, {})
            found.append(("done", None))
        except ActionRefused as refused:
            found.append(("refused", str(refused)))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        engine.app.database.transact(work)
    return found[-1]


def test_the_preview_of_a_skip_lists_what_is_skipped_with_it_and_what_may_run_then(engine: Engine) -> None:
    engine.plant("parent(kid(deep))")
    engine.plant("bad:fail > behind")
    with engine.worker() as runner:
        parent, bad = engine.claim(runner, "parent", "bad")
        run(runner, bad)
        engine.tick()
        preview = engine.app.operations.preview("skip", id=[parent.step_id, bad.step_id])
        assert also(engine, preview) == {"kid": "skipped", "deep": "skipped", "behind": "revived"}
        operation = preview.execute(who="ann")
        assert also(engine, operation)["behind"] == "revived"
    engine.tick()
    assert engine.states("kid", "deep", "behind") == {"kid": "Skipped", "deep": "Skipped", "behind": "Pending"}


def test_a_preview_is_frozen_to_the_steps_that_it_saw(engine: Engine) -> None:
    engine.plant("first:fail, second:fail")
    engine.settle()
    preview = engine.app.operations.preview("retry", state="Failed", action="behave")
    engine.plant("third:fail")
    engine.settle()
    operation = preview.execute(who="ann", why="fixed")
    assert outcomes(engine, operation) == {"first": "done", "second": "done"}
    assert engine.states() == {"first": "Pending", "second": "Pending", "third": "Failed"}
    assert (engine["first"].actor, engine["first"].reason) == ("operator:ann", "operator: fixed")


def test_what_has_changed_since_the_preview_is_not_touched(engine: Engine) -> None:
    """Even if it looks the same again: it failed once more."""
    engine.plant("gone:fail, again:fail/fail, same:fail")
    engine.settle()
    preview = engine.app.operations.preview("retry", state="Failed")
    engine.app.skip(engine.refs["gone"], who="ben")
    engine.app.retry(engine.refs["again"], who="ben")
    engine.settle()
    assert engine.state("again") == "Failed"
    operation = preview.execute(who="ann")
    assert outcomes(engine, operation) == {"gone": "changed", "again": "changed", "same": "done"}
    assert engine.states() == {"gone": "Skipped", "again": "Failed", "same": "Pending"}
    assert messages(engine, operation)["gone"] == "it has changed meanwhile and is Skipped (operator); not touched"
    progress = operation.progress()
    assert (progress.targets, progress.done, progress.refused, progress.changed, progress.left) == (3, 1, 0, 2, 0)


def test_a_preview_needs_a_filter_that_exists(engine: Engine) -> None:
    with pytest.raises(StepwellError, match=r"unknown filter .colour.; valid filters: .*relatable"):
        engine.app.operations.preview("retry", colour="red")
    with pytest.raises(ActionRefused, match="needs at least one filter"):
        engine.app.operations.preview("cancel")
    with pytest.raises(ActionRefused, match="unknown operation 'explode'; valid operations: cancel, cancel_workflow"):
        engine.app.operations.preview("explode", state="Failed")


@pytest.mark.parametrize("filters", [{"relatable": ("order", 7)}, {"queue": "priority"}, {"workflow": None}])
def test_the_filters_are_those_of_a_list_of_steps(engine: Engine, filters: dict[str, Any]) -> None:
    app = engine.app
    ref = app.enqueue("behave", {"outcome": "ok"}, relatable=("order", 7), queue="priority")
    app.enqueue("behave", {"outcome": "ok"}, relatable=("order", 8))
    if "workflow" in filters:
        filters = {"workflow": ref.uuid}
    listed = [step.id for step in app.steps(**filters)]
    preview = app.operations.preview("cancel", **filters)
    assert [item.step_id for item in preview.items()] == listed == [ref.id]


def test_a_preview_is_executed_once_and_deleted_after_a_day(engine: Engine) -> None:
    engine.plant("a, b")
    operations = engine.app.operations
    preview = operations.preview("cancel", id=[engine.refs["a"].id])
    operations.open_preview(preview.id).execute(who="ann")
    assert "was executed by operator:ann" in refusal(preview.execute, who="ben")
    old = operations.preview("cancel", id=[engine.refs["b"].id])
    engine.clock.advance(90_000)
    operations.preview("cancel", id=[engine.refs["b"].id])
    with pytest.raises(OperationNotFound, match="make a new one; nothing changed"):
        old.execute(who="ann")
    assert operations.get(preview.id).progress().done == 1  # what was done stays on record


# Executions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "line", "state"),
    [("cancel", "a, b", "Cancelled"), ("skip", "a, b", "Skipped"), ("complete", "a, b", "Completed"),
     ("fail", "a, b", "Failed")],
)  # fmt: skip
def test_each_kind_acts_on_all_that_match(engine: Engine, kind: str, line: str, state: str) -> None:
    engine.plant(line)
    extra = {"result": {"by": "hand"}} if kind == "complete" else {}
    operation = engine.app.operations.preview(kind, state="Pending", **extra).execute(who="ann")
    assert engine.states() == {"a": state, "b": state}
    assert outcomes(engine, operation) == {"a": "done", "b": "done"}
    if kind == "complete":
        assert engine["a"].response == {"by": "hand"}


def test_running_steps_are_stopped_in_bulk_and_others_are_refused(engine: Engine) -> None:
    engine.plant("a")
    with engine.worker() as runner:
        engine.claim(runner, "a")
        engine.plant("b")
        operation = engine.app.operations.preview("stop", action="behave").execute(who="ann")
    assert outcomes(engine, operation) == {"a": "done", "b": "refused"}
    assert (
        messages(engine, operation)["b"]
        == f"step {engine.refs['b'].id} (b) is Pending and cannot be stopped; nothing changed"
    )
    assert engine.states() == {"a": "Stopped", "b": "Pending"}


def test_a_target_that_returns_with_another_one_is_done_and_not_changed(engine: Engine) -> None:
    engine.plant("root(mid(bad:fail))")
    engine.settle()
    operation = engine.app.operations.preview("retry", state="Failed").execute(who="ann")
    assert outcomes(engine, operation) == {"root": "done", "mid": "done", "bad": "done"}
    assert engine.states() == {"root": "Running", "mid": "Running", "bad": "Pending"}


def test_a_refused_item_leaves_the_others_of_its_batch_done(engine: Engine) -> None:
    engine.plant("a:fail, top(low), b:fail")
    with engine.worker() as runner:
        a, top, b = engine.claim(runner, "a", "top", "b")
        run(runner, a, b)
        engine.app.actions.fail(top.step_id, "ben")
        engine.tick()
        assert engine.state("low") == "Failed"
        preview = engine.app.operations.preview("retry", id=[engine.refs[name].id for name in ("a", "low", "b")])
        operation = preview.execute(who="ann")
    assert outcomes(engine, operation) == {"a": "done", "low": "refused", "b": "done"}
    assert "because its ancestor" in (messages(engine, operation)["low"] or "")
    assert engine.states("a", "low", "b") == {"a": "Pending", "low": "Failed", "b": "Pending"}


def test_an_operation_that_was_cut_off_is_continued_and_no_step_is_acted_on_twice(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executing, "BATCH", 3)
    labels = [f"s{number}" for number in range(10)]
    engine.plant(", ".join(f"{label}:fail" for label in labels))
    engine.settle()
    operation = engine.app.operations.preview("retry", state="Failed").execute(who="ann", wait=False)
    assert operation.round() == 0.0
    act, calls = engine.app.actions.steps.retry, []

    def dies(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt  # in the middle of a batch
        return act(*arguments)

    monkeypatch.setattr(engine.app.actions.steps, "retry", dies)
    with pytest.raises(KeyboardInterrupt):
        operation.run()
    assert operation.progress().done == 3
    assert sum(state == "Pending" for state in engine.states().values()) == 3
    engine.settle()  # the first three run, and fail again
    monkeypatch.undo()
    engine.app.operations.get(operation.id).run()
    assert [len([t for t in engine.history(label) if t.actor == "operator:ann"]) for label in labels] == [1] * 10
    assert set(outcomes(engine, operation).values()) == {"done"}
    row = operation.row()
    assert (row.state, row.actor, row.ended_at is not None) == ("done", "operator:ann", True)
    operation.run()  # nothing is left
    assert operation.progress().left == 0


@pytest.mark.parametrize(("pace", "seconds"), [("1/second", 9), ("50/minute", 10.8), ("2/s", 4), ("100/s", 0.1)])
def test_an_operation_keeps_to_its_pace(engine: Engine, pace: str, seconds: float) -> None:
    """Ten items: the first may go at once."""
    engine.app.enqueue_many([NewStep(action="behave", arguments={"outcome": "ok"}) for _ in range(10)])
    started = engine.clock.now()
    operation = engine.app.operations.preview("cancel", state="Pending").execute(who="ann", pace=pace)
    times = sorted(item.at for item in operation.items() if item.at is not None)
    assert len(times) == 10
    amount, per = float(pace.split("/")[0]), 60 if "m" in pace else 1
    for position, at in enumerate(times):
        within = [other for other in times[position:] if (other - at).total_seconds() < per - 1e-6]
        assert len(within) <= amount
    assert (times[-1] - started).total_seconds() == pytest.approx(seconds if pace != "100/s" else 0)


def test_the_pace_holds_for_two_that_execute_the_same_operation(engine: Engine) -> None:
    engine.plant("a, b, c")
    operation = engine.app.operations.preview("cancel", state="Pending").execute(who="ann", pace="1/minute", wait=False)
    assert operation.round() == 60.0
    assert engine.app.operations.get(operation.id).round() == 60.0  # it has to wait, too
    assert operation.progress().done == 1
    engine.clock.advance(60)
    operation.round()
    assert operation.progress().done == 2


@pytest.mark.parametrize("pace", ["fast", "0/second", "5/day", "-1/s"])
def test_a_pace_that_makes_no_sense_is_refused(engine: Engine, pace: str) -> None:
    engine.plant("a")
    preview = engine.app.operations.preview("cancel", state="Pending")
    assert "is not a pace; write it as" in refusal(preview.execute, who="ann", pace=pace)
    assert engine.state("a") == "Pending"


@pytest.mark.slow
def test_a_preview_of_many_steps_is_taken_and_executed(engine: Engine) -> None:
    total = 100_000
    engine.app.enqueue_many([NewStep(action="behave", arguments={}) for _ in range(total)])
    preview = engine.app.operations.preview("cancel", state="Pending", action="behave")
    assert preview.counts().done == total
    operation = preview.execute(who="ann", wait=False)
    for _ in range(20):
        operation.round()
    assert operation.progress().done == 20 * executing.BATCH


# Undo -------------------------------------------------------------------------------------------------------


def test_the_undo_of_a_cancellation_retries_what_it_cancelled(engine: Engine) -> None:
    engine.plant("root(kid > next), alone, moved")
    preview = engine.app.operations.preview("cancel", id=[engine.refs[n].id for n in ("root", "alone", "moved")])
    assert also(engine, preview) == {"kid": "cancelled", "next": "cancelled"}
    done = preview.execute(who="ann")
    engine.tick()
    assert set(engine.states().values()) == {"Cancelled"}
    engine.app.skip(engine.refs["moved"], who="ben")
    undo = done.undo(who="ann", why="wrong ones")
    assert outcomes(engine, undo) == {"root": "done", "alone": "done", "moved": "changed"}
    assert engine.states("root", "alone", "moved") == {"root": "Pending", "alone": "Pending", "moved": "Skipped"}
    engine.settle()
    assert set(engine.states("root", "kid", "next", "alone").values()) == {"Completed"}
    assert f"was undone by operation {undo.id}" in refusal(done.undo, who="ann")
    assert "itself an undo" in refusal(undo.undo, who="ann")
    assert (undo.row().kind, undo.row().undo_of, undo.row().reason) == ("undo", done.id, "wrong ones")


def test_the_undo_of_a_retry_ends_what_has_not_begun_yet(engine: Engine) -> None:
    engine.plant("bad:fail > behind")
    engine.plant("halted:stop")
    engine.settle()
    engine.app.cancel(engine.add("dropped"), who="ben")
    ids = [engine.refs[label].id for label in ("bad", "dropped", "halted")]
    operation = engine.app.operations.preview("retry", id=ids).execute(who="ann")
    assert engine.states("bad", "dropped", "halted") == {"bad": "Pending", "dropped": "Pending", "halted": "Pending"}
    undo = operation.undo(who="ann")
    assert outcomes(engine, undo) == {"bad": "done", "dropped": "done", "halted": "refused"}
    assert "it was Stopped" in (messages(engine, undo)["halted"] or "")
    engine.tick()
    assert engine.states("bad", "behind", "dropped") == {
        "bad": "Failed", "behind": "NotRunnable", "dropped": "Cancelled",
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "reason"), [("skip", "Skipped is final"), ("complete", "Completed is final"),
                                              ("reset_attempts", "the earlier counts are not kept")])  # fmt: skip
def test_what_cannot_be_undone_is_refused_with_the_reason_for_each_item(engine: Engine, kind: str, reason: str) -> None:
    engine.plant("a, b")
    undo = engine.app.operations.preview(kind, state="Pending").execute(who="ann").undo(who="ann")
    assert set(outcomes(engine, undo).values()) == {"refused"}
    assert not engine.app.operations.can_undo(kind)
    assert all(reason in (message or "") for message in messages(engine, undo).values())


def test_the_undo_of_a_single_action(engine: Engine) -> None:
    engine.plant("a")
    engine.app.cancel(engine.refs["a"], who="ann", why="oops")
    (row,) = engine.app.operations.of_step(engine.refs["a"].id)
    assert (row.kind, row.actor, row.reason, row.state) == ("cancel", "operator:ann", "oops", "done")
    assert engine.app.operations.can_undo(row.kind)
    engine.app.operations.get(row.id).undo(who="ann")
    assert engine.state("a") == "Pending"
    assert [each.kind for each in engine.app.operations.of_step(engine.refs["a"].id)] == ["undo", "cancel"]


def test_what_has_no_opposite_cannot_be_undone(engine: Engine) -> None:
    engine.app.breaker.pause("ann")
    (row,) = engine.app.operations.newest()
    assert not engine.app.operations.can_undo(row.kind)
    assert "of the kind `pause` cannot be undone" in refusal(engine.app.operations.get(row.id).undo, who="ann")
    assert len(engine.app.operations.newest()) == 1


def test_an_operation_goes_on_after_a_step_that_no_longer_exists(lawless_app: Stepwell) -> None:
    refs = [lawless_app.enqueue("behave") for _ in range(2)]
    preview = lawless_app.operations.preview("cancel", state="Pending")

    def delete(tx: Transaction) -> None:
        for table, column in (("steps_agenda", "step_id"), ("steps", "id")):
            tx.execute(f"DELETE FROM {table} WHERE {column} = {refs[0].id}", {})

    lawless_app.database.transact(delete)
    operation = preview.execute(who="ann")
    assert [(item.outcome, item.message) for item in operation.items()] == [
        ("changed", "it no longer exists"),
        ("done", None),
    ]


# The audit trail ----------------------------------------------------------------------------------------------


def test_every_single_action_leaves_an_operation_with_who_why_and_when(app: Stepwell) -> None:
    engine = Engine(app, app.clock)  # type: ignore[arg-type]
    engine.plant("a, b, c, d, e, f")
    engine.change("UPDATE steps SET retries = 1 WHERE id = :id", id=engine.refs["d"].id)  # something to reset
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("cancel", lambda: app.cancel(engine.refs["a"], who="ann", why="y")),
        ("retry", lambda: app.retry(engine.refs["a"], who="ann", why="y")),
        ("skip", lambda: app.skip(engine.refs["b"], who="ann", why="y")),
        ("complete", lambda: app.complete(engine.refs["c"], who="ann", why="y")),
        ("reset_attempts", lambda: app.reset_attempts(engine.refs["d"], who="ann", why="y")),
        ("fail", lambda: app.actions.fail(engine.refs["d"].id, "ann", "y")),
        ("pause_workflow", lambda: app.pause_workflow(engine.refs["e"], who="ann", why="y")),
        ("resume_workflow", lambda: app.resume_workflow(engine.refs["e"], who="ann", why="y")),
        ("pause", lambda: app.breaker.pause("ann", "y")),
        ("resume", lambda: app.breaker.resume("ann", "y")),
    ]
    for kind, call in calls:
        engine.clock.advance(1)
        call()
        row = app.operations.newest(limit=1)[0]
        assert (row.kind, row.actor, row.reason, row.created_at) == (kind, "operator:ann", "y", engine.clock.now())
        assert len(app.operations.get(row.id).items()) == (0 if kind in ("pause", "resume") else 1)
    assert [row.kind for row in app.operations.newest(limit=100)] == [kind for kind, _ in reversed(calls)]
    (pause,) = [row for row in app.operations.of_workflow(engine.refs["e"].uuid) if row.kind == "pause_workflow"]
    assert pause.actor == "operator:ann"


def test_an_action_that_is_refused_leaves_no_operation(engine: Engine) -> None:
    engine.plant("a")
    engine.app.skip(engine.refs["a"], who="ann")
    refusal(engine.app.cancel, engine.refs["a"], who="ben")
    assert [row.actor for row in engine.app.operations.newest()] == ["operator:ann"]


# Reset attempts -----------------------------------------------------------------------------------------------


def test_reset_attempts_forgets_the_attempts_and_the_delay_after_the_last_one(engine: Engine) -> None:
    engine.plant("again:raise/raise/raise/ok")
    engine.app.run_until_idle()
    step = engine["again"]
    assert (step.state, step.attempts, step.retries) == ("Pending", 1, 1)
    assert step.dispatch_after is not None
    engine.app.reset_attempts(engine.refs["again"], who="ann")
    step = engine["again"]
    assert (step.attempts, step.retries, step.dispatch_after) == (0, 0, None)
    assert engine.app.run_until_idle() == 1


def test_reset_attempts_keeps_a_planned_time(engine: Engine) -> None:
    engine.add("planned", delay=3_600)
    planned = engine["planned"].dispatch_after
    engine.app.reset_attempts(engine.refs["planned"], who="ann")
    assert engine["planned"].dispatch_after == planned is not None
    assert engine.app.run_until_idle() == 0


@pytest.mark.parametrize(
    ("outcome", "hint"), [("fail", "retry it, which resets them, too"), ("ok", "it has concluded")]
)
def test_reset_attempts_of_a_step_that_has_ended_is_refused_with_what_to_do(
    engine: Engine, outcome: str, hint: str
) -> None:
    engine.plant(f"a:{outcome}")
    engine.settle()
    assert hint in refusal(engine.app.reset_attempts, engine.refs["a"], who="ann")
