"""The JSON API: what each subject answers, pages, errors, and that everything done by hand is on record."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from starlette.testclient import TestClient

from stepwell import Stepwell
from stepwell.model.states import State
from stepwell.testing import ManualClock
from stepwell.web import Role
from tests.conformance.web.support import client, web


@pytest.fixture
def api(app: Stepwell) -> TestClient:
    @app.job()
    def divide(by: int = 1, password: str = "") -> float:
        return 1 / by

    made = client(web(app))
    made.base_url = made.base_url.join("/api/v1/")
    return made


def kinds(app: Stepwell) -> list[tuple[str, str | None, str | None]]:
    """Operations, oldest first: what, who, why."""
    return [(row.kind, row.actor, row.reason) for row in reversed(app.operations.newest())]


# Steps --------------------------------------------------------------------------------------------------------


def test_a_step_is_created_shown_listed_and_traced(api: TestClient, app: Stepwell) -> None:
    made = api.post("steps", json={"action": "divide", "arguments": {"by": 2}, "label": "half", "why": "asked for"})
    assert (made.status_code, made.json()["state"]) == (201, "Pending")
    app.run_until_idle()
    id = made.json()["id"]
    assert api.get(f"steps/{id}").json()["response"] == 0.5
    assert api.get(f"steps/{made.json()['uuid']}").json()["id"] == id
    assert [row["to_state"] for row in api.get(f"steps/{id}/history").json()][-1] == "Completed"
    assert [row["id"] for row in api.get("steps", params={"state": "Completed"}).json()["items"]] == [id]
    assert [row["depth"] for row in api.get(f"steps/{id}/tree").json()] == [0]
    assert kinds(app) == [("enqueue", "operator:ann-admin", "asked for")]


def test_only_a_known_job_can_be_enqueued(api: TestClient, app: Stepwell) -> None:
    for action in ("os.system", "divde", "builtins.eval"):
        answer = api.post("steps", json={"action": action})
        assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert app.steps() == []
    app.record_jobs()
    other = Stepwell(app.database.url) if app.database.is_shared else app
    assert client(web(other)).post("/api/v1/steps", json={"action": "divide"}).status_code == 201
    if other is not app:
        other.close()


def test_pages_by_key_have_every_step_once(api: TestClient, app: Stepwell) -> None:
    ids = [app.enqueue("divide").id for _ in range(7)]
    found, before = [], None
    while True:
        page = api.get("steps", params={"limit": 3, **({} if before is None else {"before": before})}).json()
        found += [row["id"] for row in page["items"]]
        before = page["next"]
        if before is None:
            break
    assert found == ids[::-1]


def test_a_list_carries_no_arguments_and_no_stacks(api: TestClient, app: Stepwell) -> None:
    app.enqueue("divide", {"by": 0}, max_retries=0)
    app.run_until_idle()
    (row,) = api.get("steps", params={"state": ["Failed", "Stopped"]}).json()["items"]
    assert {"arguments", "response", "error_stack_trace"}.isdisjoint(row)
    assert "division by zero" in row["error"]


def test_an_operators_actions_on_a_step_are_done_and_on_record(api: TestClient, app: Stepwell) -> None:
    step = app.enqueue("divide", {"by": 0}, max_retries=0)
    app.run_until_idle()
    assert api.post(f"steps/{step.id}/retry", json={"why": "again"}).json() == {"steps": [step.id]}
    assert api.post(f"steps/{step.id}/cancel", json={}).json()["state"] == "Cancelled"
    assert api.post(f"steps/{step.id}/complete", json={"response": 7}).json()["response"] == 7
    refused = api.post(f"steps/{step.id}/retry", json={})
    assert refused.status_code == 409
    assert "nothing changed" in refused.json()["detail"]
    assert [kind for kind, *_ in kinds(app)] == ["retry", "cancel", "complete"]
    assert {actor for _, actor, _ in kinds(app)} == {"operator:ann-admin"}
    assert [row["kind"] for row in api.get(f"steps/{step.id}/operations").json()] == ["complete", "cancel", "retry"]


def test_a_step_as_it_was_at_an_earlier_moment(api: TestClient, app: Stepwell, clock: ManualClock) -> None:
    step = app.enqueue("divide")
    then = clock.now()
    clock.advance(60)
    app.run_until_idle()
    assert api.get(f"steps/{step.id}/then", params={"at": then.isoformat()}).json()["state"] == "Pending"
    earlier = api.get(f"steps/{step.id}/then", params={"at": "2001-01-01T00:00:00Z"})
    assert earlier.status_code == 404


def test_an_explanation_names_what_a_step_waits_for(api: TestClient, app: Stepwell) -> None:
    step = app.enqueue("divide", delay=3600)
    assert "waiting" in api.get(f"steps/{step.id}/explain").json()["summary"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("steps/999", 404),
        ("steps/zzz", 422),
        ("steps?state=Nope", 422),
        ("steps?limit=0", 422),
        ("steps?limit=201", 422),
        ("steps?before=-1", 422),
        ("steps?before=1.5", 422),
        ("steps?throttled=1", 422),
        ("steps?throttled=null", 422),
        ("steps?status=ready&status=nope", 422),
        ("classes?active_only=0", 422),
        ("steps?misspelt=1", 422),
        ("steps?action=a%00b", 422),
        ("steps?action=a&action=b", 422),
        ("workflows/01890000-0000-7000-8000-000000000000", 404),
        ("schedules/none", 404),
        ("operations/77", 404),
        ("ticks?group=none", 422),
        ("nothing", 404),
    ],
)
def test_bad_input_is_a_problem_that_says_what_is_wrong(api: TestClient, path: str, status: int) -> None:
    answer = api.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 422),
        (b'{"action": 1}', "application/json", 422),
        (b'{"action": "divide", "unknown": 1}', "application/json", 422),
        (b'{"action": "divide", "arguments": {"by": "a\\u0000b"}}', "application/json", 422),
        (b'{"action": "divide", "arguments": {"by": ' + b"[" * 80 + b"]" * 80 + b"}}", "application/json", 422),
        (b'{"action": "divide", "delay": 1, "dispatch_after": "2030-01-01T00:00:00Z"}', "application/json", 422),
        (b'{"action": "divide"}', "text/plain", 415),
        (b"\xff\xfe", "application/json", 400),
    ],
)
def test_a_bad_body_changes_nothing(api: TestClient, app: Stepwell, body: bytes, kind: str, status: int) -> None:
    answer = api.post("steps", content=body, headers={"content-type": kind})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert app.steps() == []


def test_json_without_its_content_type_is_refused_with_the_one_to_send(api: TestClient, app: Stepwell) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}  # what `curl -d` sends
    answer = api.post("steps", content=b'{"action": "divide"}', headers=form)
    assert answer.status_code == 400
    assert "Content-Type: application/json" in answer.json()["help"]
    assert app.steps() == []


# Secrets ------------------------------------------------------------------------------------------------------


def test_a_secret_is_shown_nowhere_and_cannot_be_searched_for(api: TestClient, app: Stepwell) -> None:
    @app.job(max_retries=0)
    def leak(password: str) -> None:
        raise RuntimeError(f"cannot open postgresql://ann:{password}@db with token={password}")

    app.schedules.create("leaky", "0 1 * * *", "leak", {"password": "c4n4ry"}, who="ann")
    step = app.enqueue("leak", {"password": "c4n4ry"})
    app.run_until_idle()
    paths = [
        f"steps/{step.id}",
        f"steps/{step.id}/history",
        f"steps/{step.id}/tree",
        f"steps/{step.id}/explain",
        "steps",
        "failures",
        "schedules",
        "schedules/leaky/changes",
    ]
    for path in paths:
        answer = api.get(path)
        assert answer.status_code == 200
        assert "c4n4ry" not in answer.text, path
    assert api.get(f"steps/{step.id}").json()["arguments"] == {"password": "[redacted]"}
    assert api.get("steps", params={"args": "password=c4n4ry"}).status_code == 422
    search = {"kind": "cancel", "filters": {"args": {"login.password": "c4n4ry"}}}
    assert api.post("operations", json=search).status_code == 422


def test_steps_are_found_by_their_arguments_and_by_what_became_of_them(api: TestClient, app: Stepwell) -> None:
    two, zero = app.enqueue("divide", {"by": 2}), app.enqueue("divide", {"by": 0}, max_retries=0)
    waiting = app.enqueue("divide", {"by": 3}, delay=60)

    def found(**parameters: str) -> list[int]:
        return [row["id"] for row in api.get("steps", params=parameters).json()["items"]]

    assert found(status="delayed") == [waiting.id]
    app.run_until_idle()
    assert found(args="by=2") == [two.id]
    (cause,) = api.get("failures").json()
    assert found(fingerprint=cause["fingerprint"]) == [zero.id]
    assert found(action="divide", state="Pending") == [waiting.id]


# Idempotency --------------------------------------------------------------------------------------------------


def test_a_request_that_is_repeated_with_its_key_acts_once_and_gets_the_first_answer(
    api: TestClient, app: Stepwell
) -> None:
    key, body = {"idempotency-key": "k-1"}, {"action": "divide"}
    first, second = api.post("steps", json=body, headers=key), api.post("steps", json=body, headers=key)
    assert (second.status_code, second.json()) == (201, first.json())
    assert second.headers["idempotency-replayed"] == "true"
    assert len(app.steps()) == 1
    other = api.post("steps", json={"action": "divide", "label": "other"}, headers=key)
    assert (other.status_code, len(app.steps())) == (422, 1)
    assert api.post("breaker/pause", json={}, headers=key).status_code == 422
    reader = client(web(app), Role.OPERATE).post("/api/v1/steps", json=body, headers=key)
    assert (reader.status_code, len(app.steps())) == (201, 2)  # another visitor's key is another key


def test_a_refusal_is_repeated_too_and_an_outage_leaves_nothing_behind(
    api: TestClient, app: Stepwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepwell.model.errors import DatabaseUnavailable

    key = {"idempotency-key": "k-2"}
    assert api.post("steps/9/retry", json={}, headers=key).status_code == 404
    assert api.post("steps/9/retry", json={}, headers=key).headers["idempotency-replayed"] == "true"

    def fail(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("the database is away")

    again = {"idempotency-key": "k-3"}
    with monkeypatch.context() as patch:
        patch.setattr(app.breaker, "pause", fail)
        assert api.post("breaker/pause", json={}, headers=again).status_code == 503
    assert api.post("breaker/pause", json={}, headers=again).status_code == 200


def test_a_key_is_forgotten_after_a_day(api: TestClient, app: Stepwell, clock: ManualClock) -> None:
    key, body = {"idempotency-key": "k-4"}, {"action": "divide"}
    api.post("steps", json=body, headers=key)
    clock.advance(86_401)
    assert "idempotency-replayed" not in api.post("steps", json=body, headers=key).headers
    assert len(app.steps()) == 2


# Workflows, schedules, operations, the rest ---------------------------------------------------------------------


def test_a_workflow_is_started_answered_and_traced(api: TestClient, app: Stepwell) -> None:
    order = app.workflows("shop").workflow("order", context={"type": "object"})

    @order.step()
    def pack() -> str:
        return "box"

    approval = order.gate("approval", after=[pack], result=bool)

    @order.step(after=[approval])
    def ship() -> None: ...

    assert [each["steps"] for each in api.get("templates").json()] == [["pack", "approval", "ship"]]
    body = {"name": "order", "namespace": "shop", "context": {"api_key": "c4n4ry"}, "reason": "new order"}
    started = api.post("workflows", json=body)
    assert started.status_code == 201
    path = f"workflows/{started.json()['id']}"
    app.run_until_idle()
    shown = api.get(path).json()
    assert shown["workflow"]["initiator"] == "ann-admin"
    assert shown["workflow"]["context"] == {"api_key": "[redacted]"}
    assert shown["execution"]["open_gates"] == 1
    assert api.post(f"{path}/answer", json={"gate": "approval", "answer": "maybe"}).status_code == 409
    assert api.post(f"{path}/answer", json={"gate": "approval", "answer": True}).status_code == 200
    app.run_until_idle()
    assert api.get(path).json()["workflow"]["state"] == "complete"
    assert [row["to_state"] for row in api.get(f"{path}/history").json()][-1] == "complete"
    assert [row["step"]["label"] for row in api.get(f"{path}/tree").json()] == ["pack", "approval", "ship"]
    (listed,) = api.get("workflows", params={"state": "complete"}).json()["items"]
    assert api.get("workflows", params={"before": listed["id"]}).json()["items"] == []
    assert [kind for kind, *_ in kinds(app)] == ["start_workflow", "answer"]
    assert api.post("workflows", json={"name": "ordr", "namespace": "shop"}).status_code == 404


def test_a_workflow_is_steered_by_hand(api: TestClient, app: Stepwell) -> None:
    order = app.workflows().workflow("order")

    @order.step(retry_limit=1)
    def fail() -> None:
        raise RuntimeError("out of stock")

    path = f"workflows/{api.post('workflows', json={'name': 'order'}).json()['id']}"
    assert api.post(f"{path}/pause", json={"why": "check"}).status_code == 200
    assert app.run_until_idle() == 0
    assert api.post(f"{path}/resume", json={}).status_code == 200
    app.run_until_idle()
    assert api.get(path).json()["workflow"]["state"] == "error"
    assert "out of stock" in api.get(f"{path}/explain").text
    assert len(api.post(f"{path}/retry", json={}).json()["steps"]) == 1
    assert len(api.post(f"{path}/cancel", json={}).json()["steps"]) == 1
    assert api.post(f"{path}/resolve", json={"why": "by phone"}).json()["workflow"]["state"] == "resolved_manually"
    assert [kind for kind, *_ in kinds(app)] == [
        "start_workflow", "pause_workflow", "resume_workflow", "retry_workflow", "cancel_workflow", "resolve_workflow",
    ]  # fmt: skip


def test_a_schedule_is_defined_previewed_run_and_deleted(api: TestClient, app: Stepwell, clock: ManualClock) -> None:
    body = {"name": "nightly", "expression": "30 2 * * *", "handler": "divide", "zone": "Europe/Berlin"}
    assert api.post("schedules", json=body).status_code == 201
    assert api.post("schedules", json=body).status_code == 422
    assert len(api.get("schedules/nightly/next", params={"count": 3}).json()) == 3
    preview = api.patch("schedules/nightly?preview=true", json={"expression": "0 4 * * *"}).json()
    assert preview["changed"] == ["expression"]
    assert preview["before"] != preview["after"]
    assert api.get("schedules/nightly").json()["definition"]["expression"] == "30 2 * * *"
    assert api.patch("schedules/nightly", json={"expression": "0 4 * * *", "why": "later"}).status_code == 200
    assert api.post("schedules/nightly/disable", json={"why": "holidays"}).json()["disabled_reason"] == "holidays"
    assert api.post("schedules/nightly/enable", json={}).json()["definition"]["enabled"]
    ran = api.post("schedules/nightly/run", json={}).json()
    assert (ran["kind"], ran["requested_by"]) == ("manual", "operator:ann-admin")
    app.run_until_idle()
    assert [row["status"] for row in api.get("schedules/nightly/executions").json()["items"]] == ["SUCCESS"]
    clock.advance(86_400)
    app.schedules.run_once()
    assert [row["outcome"] for row in api.get("schedules/nightly/slots").json()][-1] == "fired"
    day = {"first": clock.now().replace(hour=0).isoformat(), "last": clock.now().isoformat(), "preview": True}
    assert api.post("schedules/nightly/backfill", json=day).status_code == 200
    assert [row["kind"] for row in api.get("schedules/nightly/changes").json()] == [
        "created", "edited", "disabled", "enabled",
    ]  # fmt: skip
    assert api.delete("schedules/nightly").status_code == 409
    assert api.delete("schedules/nightly", params={"force": "true"}).json() == {"name": "nightly"}
    assert [kind for kind, *_ in kinds(app)] == [
        "create_schedule", "edit_schedule", "disable_schedule", "enable_schedule", "run_schedule", "delete_schedule",
    ]  # fmt: skip


def test_a_bulk_operation_is_previewed_frozen_run_and_undone(api: TestClient, app: Stepwell) -> None:
    site_of = web(app)
    program = client(site_of)
    ids = [app.enqueue("divide").id for _ in range(3)]
    preview = program.post("/api/v1/operations", json={"kind": "cancel", "filters": {"action": "divide"}})
    assert (preview.status_code, preview.json()["counts"]["targets"]) == (201, 3)
    later = app.enqueue("divide").id
    path = f"/api/v1/operations/{preview.json()['operation']['id']}"
    assert program.post(f"{path}/start", json={"why": "not needed"}).status_code == 200
    site_of.site.operations.wait()
    assert program.get(path).json()["progress"]["done"] == 3
    assert {app.step(id).state for id in ids} == {State.CANCELLED}
    assert app.step(later).state is State.PENDING
    items = program.get(f"{path}/items", params={"limit": 2}).json()
    assert [row["step_id"] for row in items["items"]] == ids[:2]
    undo = program.post(f"{path}/undo", json={})
    site_of.site.operations.wait()
    assert (undo.status_code, {app.step(id).state for id in ids}) == (201, {State.PENDING})
    assert program.post(f"{path}/start", json={}).status_code == 409
    assert program.post("/api/v1/operations", json={"kind": "explode", "filters": {}}).status_code == 409
    assert program.post("/api/v1/operations", json={"kind": "cancel", "filters": {"colour": 1}}).status_code == 422


def test_the_breaker_says_who_and_why(api: TestClient, app: Stepwell) -> None:
    paused = api.post("breaker/pause", json={"why": "deploy 4.2"}).json()
    assert (paused["dispatching"], paused["changed_by"], paused["reason"]) == (
        False, "operator:ann-admin", "deploy 4.2",
    )  # fmt: skip
    assert paused["planned_end"] is None
    assert api.get("safe-to-restart").json()["safe"]
    assert api.post("breaker/resume", json={}).json()["dispatching"]
    assert [kind for kind, *_ in kinds(app)] == ["pause", "resume"]


def test_a_pause_has_a_planned_end_if_one_is_given(api: TestClient, app: Stepwell) -> None:
    assert api.post("breaker/pause", json={"planned_seconds": 0}).status_code == 422
    assert app.breaker.state().dispatching
    paused = api.post("breaker/pause", json={"why": "deploy", "planned_seconds": 1200}).json()
    state = app.breaker.state()
    assert state.planned == timedelta(minutes=20)
    assert datetime.fromisoformat(paused["planned_end"]) == state.planned_end
    assert api.get("breaker").json() == paused
    assert api.post("breaker/resume", json={}).json()["planned_end"] is None


def test_the_overview_has_figures_groups_workers_ticks_jobs_and_main_processes(api: TestClient, app: Stepwell) -> None:
    app.record_jobs()
    app.enqueue("divide", {"by": 0}, max_retries=0)
    app.enqueue("divide", delay=60)
    app.run_until_idle()
    totals = api.get("totals").json()
    assert (totals["states"]["Failed"], totals["states"]["Pending"]) == (1, 1)
    assert len(api.get("groups").json()) == 10
    (cause,) = api.get("failures").json()
    assert cause["steps"] == 1
    assert api.get(f"failures/{cause['fingerprint']}").json()["action"] == "divide"
    assert [job["name"] for job in api.get("actions").json()] == ["divide"]
    assert len(api.get("minutes", params={"minutes": 5}).json()) >= 5
    for path in ("workers", "hosts", "classes", "queues", "ticks", "unserved", "estimate", "overdue-schedules"):
        assert api.get(path).status_code == 200, path
    for path in ("tasks", "failed-queueings", "shares"):
        assert api.get(f"main-processes/{path}").json() == []


def test_what_takes_too_long_to_read_is_given_up_and_said_so(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n WHERE i < 0"
    program = client(web(app, read_seconds=0.1))
    with monkeypatch.context() as patch:
        patch.setattr(app.figures, "totals", lambda: app.database.read(lambda tx: tx.fetch(endless, {})))
        answer = program.get("/api/v1/totals")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert "time limit" in answer.json()["detail"]
    assert program.get("/api/v1/totals").status_code == 200
