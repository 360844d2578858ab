"""Whole workflows in bulk, and what the preview of a skip lists in a workflow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stepwell.model.errors import ActionRefused, StepwellError
from stepwell.operate.operations import Operation, Preview
from stepwell.workflow.template import Each, Input, Path
from tests.conformance.support.engine import Engine
from tests.conformance.workflow.flows import job, path_of, row_of, start, states_of, steps_of


def takes(step: str, *, optional: bool = False) -> Input:
    return Input(parameter="result", source=Path(step), optional=optional)


def outcomes(operation: Operation) -> dict[str | None, str | None]:
    return {item.workflow_id: item.outcome for item in operation.items()}


def also(engine: Engine, flow: str, preview: Preview | Operation) -> dict[str, str | None]:
    names = {step.id: name for name, step in steps_of(engine.app, flow).items()}
    return {names[item.step_id or 0]: item.effect for item in preview.items(role="also")}


def test_the_preview_of_a_skip_lists_the_steps_that_are_skipped_because_of_their_input(engine: Engine) -> None:
    flow = start(
        engine.app,
        job("first", delay=60, skippable=True),
        job("needs", inputs=(takes("first"),)),
        job("needs that", inputs=(takes("needs"),)),
        job("each of it", kind="map", each=Each("result", Path("needs"))),
        job("can do without", inputs=(takes("first", optional=True),)),
        job("merely after", after=("needs",)),
        job("looks at all", inputs=(Input(parameter="result", source=Path("first"), is_outcome=True),),
            trigger="all_ended"),
    )  # fmt: skip
    engine.app.run_until_idle()
    first = steps_of(engine.app, flow)["first"]
    preview = engine.app.operations.preview("skip", id=[first.id])
    expected = also(engine, flow, preview)
    assert expected == {"needs": "skipped", "needs that": "skipped", "each of it": "skipped"}
    preview.execute(who="ann")
    engine.settle()
    skipped = {name for name, state in states_of(engine.app, flow).items() if state == "Skipped"}
    assert skipped == {"first", *expected}


def test_a_step_that_may_not_be_skipped_and_a_result_of_the_wrong_type_are_refused_in_the_preview(
    engine: Engine,
) -> None:
    flow = start(
        engine.app,
        job("a", delay=60, result_schema={"type": "integer"}),
        job("b", inputs=(takes("a"),)),
    )
    step = steps_of(engine.app, flow)["a"]
    operations = engine.app.operations
    attempts: list[tuple[Preview, Callable[[], None]]] = [
        (operations.preview("skip", id=[step.id]), lambda: engine.app.skip(step, who="ann")),
        (operations.preview("complete", id=[step.id], result="x"),
         lambda: engine.app.complete(step, who="ann", response="x")),
        (operations.preview("complete", id=[step.id]), lambda: engine.app.complete(step, who="ann")),
    ]  # fmt: skip
    for preview, single in attempts:
        with pytest.raises(ActionRefused) as refused:
            single()
        (item,) = preview.items()
        assert (item.expected, item.message) == ("refused", str(refused.value))
        (item,) = preview.execute(who="ann").items()
        assert (item.outcome, item.message) == ("refused", str(refused.value))
    operations.preview("complete", id=[step.id], result=7).execute(who="ann")
    assert engine.app.step(step).response == 7


def test_workflows_are_cancelled_retried_and_resolved_in_bulk(engine: Engine) -> None:
    app = engine.app
    waits = [start(app, job("a", delay=60), job("b", after=("a",))) for _ in range(2)]
    done = start(app, job("a"))
    app.run_until_idle()
    preview = app.operations.preview("cancel_workflow", namespace="default")
    assert preview.counts().also == {"cancelled": 4}
    operation = preview.execute(who="ann", why="storm")
    assert outcomes(operation) == {**dict.fromkeys(waits, "done"), done: "refused"}
    (message,) = [item.message for item in operation.items(outcome="refused")]
    assert message == f"workflow {done} has settled (complete); nothing changed"
    assert [row_of(app, flow).state for flow in waits] == ["cancelled", "cancelled"]
    assert row_of(app, waits[0]).reason == "operator: storm"

    retried = app.operations.preview("retry_workflow", state="cancelled").execute(who="ben")
    assert outcomes(retried) == dict.fromkeys(waits, "done")
    assert retried.progress().also == {"revived": 4}
    app.workflow_engine.actions.cancel(waits[0], "ann")
    resolved = app.operations.preview("resolve_workflow", state=["cancelled", "error"]).execute(who="cid")
    assert outcomes(resolved) == {waits[0]: "done"}
    assert row_of(app, waits[0]).state == "resolved_manually"
    engine.settle()
    assert row_of(app, waits[1]).state == "complete"


def test_a_workflow_that_has_changed_since_the_preview_is_not_touched(engine: Engine) -> None:
    app = engine.app
    flow, other = start(app, job("a")), start(app, job("a", delay=60))
    preview = app.operations.preview("cancel_workflow", state="pending")
    app.run_until_idle()
    operation = preview.execute(who="ann")
    assert outcomes(operation) == {flow: "changed", other: "done"}
    assert operation.items()[0].message == "it has changed meanwhile and is complete; not touched"


@pytest.mark.parametrize("holds_lease", [False, True])
def test_the_cancellation_of_workflows_is_undone_by_retrying_them(engine: Engine, holds_lease: bool) -> None:
    app = engine.app
    flow, moved = start(app, job("a", delay=0 if holds_lease else 60)), start(app, job("a", delay=60))
    engine.refs["a"] = steps_of(app, flow)["a"].ref
    with engine.worker() as runner:
        claims = engine.claim(runner, "a") if holds_lease else []
        operation = app.operations.preview("cancel_workflow", id=[flow, moved]).execute(who="ann")
        app.workflow_engine.actions.retry(moved, "ben")
        for claim in claims:  # only now does it settle
            app._finisher.release_lease(claim)
    assert row_of(app, flow).state == "cancelled"
    undo = operation.undo(who="ann")
    assert outcomes(undo) == {flow: "done", moved: "refused"}
    engine.settle()
    assert states_of(app, flow) == {"a": "Completed"}
    assert path_of(app, flow)[-2:] == ["in_progress", "complete"]


def test_the_retry_of_cancelled_workflows_is_undone_and_that_of_failed_ones_is_not(engine: Engine) -> None:
    app = engine.app
    failed, cancelled = start(app, job("a", outcome="fail")), start(app, job("a", delay=60))
    app.run_until_idle()
    app.workflow_engine.actions.cancel(cancelled, "ben")
    operation = app.operations.preview("retry_workflow", state=["error", "cancelled"]).execute(who="ann")
    undo = operation.undo(who="ann")
    assert outcomes(undo) == {failed: "refused", cancelled: "done"}
    assert [item.message for item in undo.items(outcome="refused")] == [
        "it had settled as error, which cannot be restored by hand: cancel it"
    ]
    assert row_of(app, cancelled).state == "cancelled"


def test_workflows_are_paused_and_resumed_in_bulk_and_both_are_undone(engine: Engine) -> None:
    app = engine.app
    flows = [start(app, job("a")) for _ in range(3)]
    paused = app.operations.preview("pause_workflow", state="pending").execute(who="ann", why="incident")
    assert app.run_until_idle() == 0
    assert app.operations.of_workflow(flows[0])[0].reason == "incident"
    paused.undo(who="ann")
    assert app.operations.preview("pause_workflow", paused=False).counts().targets == 3
    app.operations.preview("pause_workflow", id=flows[:2]).execute(who="ann")
    preview = app.operations.preview("resume_workflow", id=flows)
    (refused,) = preview.items(expected="refused")
    assert refused.message == f"workflow {flows[2]} is not paused; nothing changed"
    resumed = app.operations.preview("resume_workflow", paused=True).execute(who="ann")
    assert outcomes(resumed) == dict.fromkeys(flows[:2], "done")
    resumed.undo(who="ann")
    engine.settle()
    assert [row_of(app, flow).state for flow in flows] == ["pending", "pending", "complete"]


def test_the_filters_of_workflows_are_a_whitelist(engine: Engine) -> None:
    with pytest.raises(StepwellError, match=r"^workflows: unknown filter .queue.; valid filters: id, initiator"):
        engine.app.operations.preview("cancel_workflow", queue="default")


def test_single_actions_on_workflows_leave_operations(engine: Engine) -> None:
    app, actions = engine.app, engine.app.workflow_engine.actions
    flow = start(app, job("a", delay=60), job("b", outcome="fail"))
    app.run_until_idle()
    actions.cancel(flow, "ann", "y")
    actions.retry(flow, "ann", "y")
    actions.cancel(flow, "ann", "y")
    actions.resolve(flow, "ann", "y")
    app.workflow_engine.rerun(flow, "a", "ann", "y")
    rows = app.operations.of_workflow(flow)
    assert [(row.kind, row.actor, row.reason) for row in reversed(rows)] == [
        (kind, "operator:ann", "y")
        for kind in ("cancel_workflow", "retry_workflow", "cancel_workflow", "resolve_workflow", "rerun_workflow")
    ]


def test_a_retried_workflow_revives_nothing_below_a_step_that_was_completed_by_hand(engine: Engine) -> None:
    """Nothing can run there any more: a Completed parent has no unfinished child."""
    app = engine.app
    flow = start(app, job("a", spawn=[{"label": "kid", "outcome": "ok"}]), job("b", after=("a",)))
    engine.refs["a"] = steps_of(app, flow)["a"].ref
    with engine.worker() as runner:
        for claim in engine.claim(runner, "a"):
            runner._run(claim)
    app.workflow_engine.actions.cancel(flow, "ann")
    app.complete(engine.refs["a"], who="ann")
    assert len(app.workflow_engine.actions.retry(flow, "ann")) == 1
    engine.settle()
    assert states_of(app, flow) == {"a": "Completed", "b": "Completed"}
    assert row_of(app, flow).state == "complete"


def test_a_workflow_that_is_refused_stays_as_it_is_next_to_one_that_is_cancelled(engine: Engine) -> None:
    app = engine.app
    broken = start(app, job("a", outcome="fail"), job("b", after=("a",)))
    engine.settle()
    waiting = start(app, job("a", delay=60))
    operation = app.operations.preview("cancel_workflow", id=[broken, waiting]).execute(who="ann")
    assert outcomes(operation) == {broken: "refused", waiting: "done"}
    assert states_of(app, broken) == {"a": "Failed", "b": "NotRunnable"}
    assert states_of(app, waiting) == {"a": "Cancelled"}
