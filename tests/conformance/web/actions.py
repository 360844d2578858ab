"""Everything that can be done over HTTP, by its route: what comes before it, and what is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias

from stepwell import Stepwell
from stepwell.store import Transaction

WHY: Final = "because of the test"
API: Final = "/api/v1"
DASHBOARD: Final = "/step-dispatcher"
# What an action may change: without the history that follows from it, and without the audit trail.
TABLES: Final = (
    "steps", "steps_workflows", "steps_paused_workflows", "steps_settings", "steps_limits", "cron_jobs",
    "job_executions", "steps_schedule_changes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sent:
    """The parameters of the path, and what is sent."""

    path: dict[str, Any]
    body: dict[str, Any]
    query: str = ""


Prepare: TypeAlias = Callable[[Stepwell], Sent]


@dataclass(frozen=True, slots=True)
class Action:
    """`kind` is the operation that it is recorded as."""

    kind: str
    prepare: Prepare
    is_repeatable: bool = False  # doing it again is no error, and changes nothing


def jobs_of(app: Stepwell) -> None:
    """The code that the actions are about."""

    @app.job(max_retries=0, backoff=0)
    def work(fails: bool = False) -> str:
        if fails:
            raise ValueError("no data")
        return "done"

    order = app.workflows().workflow("order")

    @order.step(retry_limit=1)
    def pack() -> str:
        raise ValueError("no box")

    order.gate("approval", result=bool)
    app.cron("0 4 * * *", name="declared")(work)
    app._name = "shop"


def pending(app: Stepwell) -> Sent:
    return Sent({"step": app.enqueue("work", delay=60).id}, {"why": WHY})


def failed(app: Stepwell) -> Sent:
    step = app.enqueue("work", {"fails": True})
    app.run_until_idle()
    return Sent({"step": step.id}, {"why": WHY})


def running(app: Stepwell) -> Sent:
    step = app.enqueue("work")
    runner = app.inline_runner()
    runner.heartbeat()
    app.dispatch_once()
    assert [claim.step_id for claim in runner.claim(1)] == [step.id]
    return Sent({"step": step.id}, {"why": WHY})


def throttled(app: Stepwell) -> Sent:
    step = app.enqueue("work", delay=60)
    app.database.transact(lambda tx: tx.execute("UPDATE steps SET attempts = 2, retries = 2", {}))
    return Sent({"step": step.id}, {"why": WHY})


def started(app: Stepwell) -> Sent:
    return Sent({"workflow": app.workflows.start("order").id}, {"why": WHY})


def in_error(app: Stepwell) -> Sent:
    sent = started(app)
    app.run_until_idle()
    run = app.workflows.run(sent.path["workflow"])
    run.answer("approval", True, who="before")
    app.run_until_idle()
    return sent


def paused(app: Stepwell) -> Sent:
    sent = started(app)
    app.workflows.run(sent.path["workflow"]).pause(who="before")
    return sent


def gate(app: Stepwell) -> Sent:
    run = app.workflows.start("order")
    app.run_until_idle()
    return Sent({"workflow": run.id, "step": run.step("approval").id}, {"answer": True, "why": WHY})


def schedule(app: Stepwell) -> Sent:
    made = app.schedules.create("nightly", "0 2 * * *", "work", who="before")
    return Sent({"name": "nightly", "id": made.id}, {"why": WHY})


def disabled(app: Stepwell) -> Sent:
    sent = schedule(app)
    app.schedules.disable("nightly", who="before")
    return sent


def overridden(app: Stepwell) -> Sent:
    app.schedules.reconcile()
    app.schedules.edit("declared", who="before", max_retry=7)
    return Sent({"name": "declared", "id": app.schedules.get("declared").id}, {"why": WHY})


def past_slots(app: Stepwell) -> Sent:
    sent = schedule(app)
    now = app.database.now()
    sent.body.update(first=(now - timedelta(days=2)).isoformat(), last=now.isoformat())
    return sent


def off(app: Stepwell) -> Sent:
    app.breaker.pause("before")
    return Sent({}, {"why": WHY})


def nothing(app: Stepwell) -> Sent:
    return Sent({}, {"why": WHY})


def previewed(app: Stepwell) -> Sent:
    app.enqueue("work", delay=60)
    preview = app.operations.preview("cancel", action="work")
    return Sent({"operation": preview.id, "id": preview.id}, {"why": WHY})


def executed(app: Stepwell) -> Sent:
    sent = previewed(app)
    app.operations.open_preview(sent.path["id"]).execute(who="before")
    return sent


def with_body(prepare: Prepare, query: str = "", **more: Any) -> Prepare:
    def made(app: Stepwell) -> Sent:
        sent = prepare(app)
        return Sent(sent.path, {**sent.body, **more}, query)

    return made


def of_id(prepare: Prepare, **more: Any) -> Prepare:
    """For the dashboard, whose paths have `id` for everything."""

    def made(app: Stepwell) -> Sent:
        sent = prepare(app)
        path = sent.path if "id" in sent.path else {"id": sent.path.get("step") or sent.path.get("workflow")}
        in_path = {key[1:]: value for key, value in more.items() if key.startswith("_")}
        return Sent(
            {**path, **in_path}, {**sent.body, **{key: more[key] for key in more if f"{key[1:]}" not in in_path}}
        )

    return made


NEW_SCHEDULE: Final = {"name": "weekly", "expression": "0 3 * * 1", "handler": "work"}
LATER: Final = {"expression": "0 5 * * *"}

# Each unsafe route of the API, with every kind of change that it makes.
API_ACTIONS: Final[dict[tuple[str, str], list[Action]]] = {
    ("POST", "/steps"): [Action("enqueue", with_body(nothing, action="work"))],
    ("POST", "/steps/{step}/retry"): [Action("retry", failed)],
    ("POST", "/steps/{step}/cancel"): [Action("cancel", pending)],
    ("POST", "/steps/{step}/skip"): [Action("skip", pending)],
    ("POST", "/steps/{step}/complete"): [Action("complete", with_body(pending, response=7))],
    ("POST", "/steps/{step}/fail"): [Action("fail", pending)],
    ("POST", "/steps/{step}/stop"): [Action("stop", running)],
    ("POST", "/steps/{step}/reset-attempts"): [Action("reset_attempts", throttled, is_repeatable=True)],
    ("POST", "/steps/{step}/answer"): [Action("answer", gate)],
    ("POST", "/workflows"): [
        Action("start_workflow", lambda app: Sent({}, {"name": "order", "reason": WHY, "key": "once"}))
    ],
    ("POST", "/workflows/{workflow}/cancel"): [Action("cancel_workflow", started)],
    ("POST", "/workflows/{workflow}/retry"): [Action("retry_workflow", in_error)],
    ("POST", "/workflows/{workflow}/resolve"): [Action("resolve_workflow", in_error)],
    ("POST", "/workflows/{workflow}/pause"): [Action("pause_workflow", started, is_repeatable=True)],
    ("POST", "/workflows/{workflow}/resume"): [Action("resume_workflow", paused)],
    ("POST", "/workflows/{workflow}/rerun"): [Action("rerun_workflow", with_body(in_error, step="pack"))],
    ("POST", "/workflows/{workflow}/answer"): [Action("answer", with_body(gate, gate="approval"))],
    ("POST", "/schedules"): [Action("create_schedule", with_body(nothing, **NEW_SCHEDULE))],
    ("PATCH", "/schedules/{name}"): [Action("edit_schedule", with_body(schedule, **LATER), is_repeatable=True)],
    ("DELETE", "/schedules/{name}"): [
        Action("delete_schedule", lambda app: Sent(schedule(app).path, {}, f"?why={WHY.replace(' ', '+')}"))
    ],
    ("POST", "/schedules/{name}/enable"): [Action("enable_schedule", disabled, is_repeatable=True)],
    ("POST", "/schedules/{name}/disable"): [Action("disable_schedule", schedule, is_repeatable=True)],
    ("POST", "/schedules/{name}/reset"): [Action("reset_schedule", overridden, is_repeatable=True)],
    ("POST", "/schedules/{name}/run"): [Action("run_schedule", schedule)],
    ("POST", "/schedules/{name}/backfill"): [Action("backfill_schedule", past_slots, is_repeatable=True)],
    ("POST", "/breaker/pause"): [Action("pause", nothing, is_repeatable=True)],
    ("POST", "/breaker/resume"): [Action("resume", off, is_repeatable=True)],
    ("POST", "/operations/{operation}/start"): [Action("cancel", previewed)],
    ("POST", "/operations/{operation}/undo"): [Action("undo", executed)],
}
# They change nothing themselves: a preview, and going on with an operation that is recorded.
API_WITHOUT_ROW: Final = {("POST", "/operations"), ("POST", "/operations/{operation}/continue")}

DASHBOARD_ACTIONS: Final[dict[tuple[str, str], list[Action]]] = {
    ("POST", "/toggle"): [
        Action("pause", with_body(nothing, enabled=False), is_repeatable=True),
        Action("resume", with_body(off, enabled=True), is_repeatable=True),
    ],
    ("POST", "/steps/{id}/retry"): [Action("retry", of_id(failed))],
    ("POST", "/steps/{id}/reset"): [Action("reset_attempts", of_id(throttled), is_repeatable=True)],
    ("POST", "/breaker/pause"): [Action("pause", nothing, is_repeatable=True)],
    ("POST", "/breaker/resume"): [Action("resume", off, is_repeatable=True)],
    ("POST", "/operations/{id}/execute"): [Action("cancel", of_id(previewed))],
    ("POST", "/operations/{id}/undo"): [Action("undo", of_id(executed))],
    ("POST", "/workflows/{id}/{what}"): [
        Action("pause_workflow", of_id(started, _what="pause"), is_repeatable=True),
        Action("resume_workflow", of_id(paused, _what="resume")),
        Action("retry_workflow", of_id(in_error, _what="retry")),
        Action("cancel_workflow", of_id(started, _what="cancel")),
        Action("resolve_workflow", of_id(in_error, _what="resolve")),
    ],
    ("POST", "/schedules/new"): [Action("create_schedule", with_body(nothing, **NEW_SCHEDULE))],
    ("POST", "/schedules/{id}/edit"): [Action("edit_schedule", of_id(schedule, **LATER), is_repeatable=True)],
    ("POST", "/schedules/{id}/delete"): [Action("delete_schedule", of_id(schedule, name="nightly"))],
    ("POST", "/schedules/{id}/reset"): [Action("reset_schedule", of_id(overridden), is_repeatable=True)],
    ("POST", "/schedules/{id}/do/{what}"): [
        Action("enable_schedule", of_id(disabled, _what="enable"), is_repeatable=True),
        Action("disable_schedule", of_id(schedule, _what="disable"), is_repeatable=True),
        Action("run_schedule", of_id(schedule, _what="run")),
    ],
    ("POST", "/schedules/{id}/backfill"): [Action("backfill_schedule", of_id(past_slots), is_repeatable=True)],
}
DASHBOARD_WITHOUT_ROW: Final = {
    ("POST", "/operations/preview"),
    ("POST", "/operations/{id}/resume"),
    ("POST", "/login"),
    ("POST", "/logout"),
}


def contents(app: Stepwell) -> dict[str, list[str]]:
    """Everything that an action may change."""

    def read(tx: Transaction) -> dict[str, list[str]]:
        return {table: sorted(map(repr, tx.fetch(f"SELECT * FROM {table}", {}))) for table in TABLES}

    return app.database.read(read)
