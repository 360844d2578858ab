"""`/step-dispatcher/api` and `/step-dispatcher/toggle`, as the Step Dispatcher has them."""

from __future__ import annotations

import pytest

from stepwell import NewStep, Stepwell
from tests.conformance.web.support import client, web


def test_the_figures_have_their_documented_keys(app: Stepwell) -> None:
    @app.job()
    def work(number: int = 1) -> float:
        return 1 / number

    parent = NewStep(action="work")
    app.enqueue_many([parent, NewStep(action="work", parent=parent)])
    app.enqueue("work", {"number": 0}, max_retries=0)
    found = client(web(app)).get("/step-dispatcher/api").json()
    assert list(found) == ["can_dispatch_steps", "breaker", "totals", "classes", "hosts", "groups", "at", "version"]
    assert found["can_dispatch_steps"] is True
    assert found["totals"] == {
        "pending": 3, "dispatched": 0, "running": 0, "completed": 0, "skipped": 0, "failed": 0, "stopped": 0,
        "cancelled": 0, "not_runnable": 0, "child_pending": 1, "child_running": 0, "throttled": 0,
    }  # fmt: skip
    assert sum(found["groups"].values()) == 3
    assert len(found["groups"]) == 10
    app.run_until_idle()
    after = client(web(app)).get("/step-dispatcher/api").json()
    assert (after["totals"]["completed"], after["totals"]["failed"]) == (2, 1)
    assert after["classes"] == []  # none is active


def test_the_toggle_answers_the_new_state(app: Stepwell) -> None:
    program = client(web(app))
    assert program.post("/step-dispatcher/toggle", json={"enabled": False}).json() == {"enabled": False}
    assert program.get("/step-dispatcher/api").json()["can_dispatch_steps"] is False
    answer = program.post("/step-dispatcher/toggle", json={"enabled": True, "why": "deployed"})
    assert answer.json() == {"enabled": True}
    assert app.breaker.state().reason == "deployed"
    assert [(row.kind, row.actor) for row in app.operations.newest()] == [
        ("resume", "operator:ann-admin"),
        ("pause", "operator:ann-admin"),
    ]


@pytest.mark.one_database
@pytest.mark.parametrize("enabled", [0, 1, "true", "false", None, [], {}, "", 1.0])
def test_the_toggle_refuses_what_is_not_a_boolean(app: Stepwell, enabled: object) -> None:
    program = client(web(app))
    assert program.post("/step-dispatcher/toggle", json={"enabled": enabled}).status_code == 422
    assert program.post("/step-dispatcher/toggle", json={}).status_code == 422
    assert app.breaker.state().dispatching
    assert app.operations.newest() == []
