"""Operations that continue after their request: beside the server, or in a program that mounts the application."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from starlette.testclient import TestClient

from stepwell import State, Stepwell
from stepwell.model.errors import DatabaseUnavailable
from stepwell.operate.operations import executing
from stepwell.service.crew import Crew
from stepwell.web import Role, background
from stepwell.web.server import WebPart
from tests.conformance.web.support import TOKENS, web
from tests.unit.service.parts import in_thread

THREAD = "stepwell-operations"


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executing, "BATCH", 2)


@pytest.fixture
def steps(app: Stepwell) -> list[int]:
    return [app.enqueue("work").id for _ in range(5)]


def cancel_all(program: TestClient) -> str:
    """Start an operation on all steps; returns its path."""
    program.headers["authorization"] = f"Bearer {TOKENS[Role.ADMIN].secret}"
    preview = program.post("/api/v1/operations", json={"kind": "cancel", "filters": {"action": "work"}})
    path = f"/api/v1/operations/{preview.json()['operation']['id']}"
    assert program.post(f"{path}/start", json={}).status_code == 200
    return path


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == THREAD]


def test_a_mounted_application_executes_operations_and_needs_no_thread_afterwards(
    app: Stepwell, steps: list[int]
) -> None:
    made = web(app)
    for _ in range(2):
        path = cancel_all(program := TestClient(made, base_url="http://localhost"))
        made.site.operations.wait()
        for thread in threads():
            thread.join()
        assert program.get(path).json()["operation"]["state"] == "done"
        assert {app.step(id).state for id in steps} == {State.CANCELLED}
        steps += [app.enqueue("work").id for _ in range(3)]
        app.operations.preview("retry", id=steps).execute(who="ann")


def test_an_outage_of_a_moment_does_not_end_an_operation(
    app: Stepwell, steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, transact, outages = web(app), app.database.transact, list[int]()

    def away(work: Any, **options: Any) -> Any:
        if threading.current_thread().name == THREAD and len(outages) < 3:
            outages.append(1)
            raise DatabaseUnavailable("the server is restarting")
        return transact(work, **options)

    monkeypatch.setattr(app.database, "transact", away)
    cancel_all(TestClient(made, base_url="http://localhost"))
    made.site.operations.wait()
    assert len(outages) == 3
    assert {app.step(id).state for id in steps} == {State.CANCELLED}


def test_a_server_executes_them_in_a_part_of_its_crew(
    app: Stepwell, steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    part = WebPart(made := web(app))
    part.listen_on("127.0.0.1", 0)
    crew = Crew([part, part.operations_part()])
    monkeypatch.setattr(background, "Crew", None)  # it starts none of its own
    with in_thread(crew.run):
        cancel_all(TestClient(made, base_url="http://localhost"))
        made.site.operations.wait()
        crew.stop()
    assert {app.step(id).state for id in steps} == {State.CANCELLED}
    assert crew.report() == "1 operation executed"
