"""What makes two requests the same, and a start in the caller's own transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from stepwell import Stepwell, Workflow, WorkflowConflict
from stepwell.testing import ManualClock
from tests.conformance.support.engine import in_processes


def pay(amount: int = 1) -> int:
    return amount


def wrap() -> str:
    return "paper"


def declare(app: Stepwell, version: str = "1", name: str = "ordering") -> Workflow[Any]:
    flow = app.workflows("shop").workflow(name, version=version)
    flow.step()(pay)
    flow.step(skippable=True)(wrap)
    return flow


def count(app: Stepwell) -> int:
    rows = app.database.read(lambda tx: tx.fetch("SELECT count(*) AS n FROM steps_workflows", {}))
    return int(rows[0]["n"])


def test_every_request_is_a_workflow_of_its_own_unless_told_otherwise(app: Stepwell) -> None:
    flow = declare(app)
    assert flow.start({"id": 1}).id != flow.start({"id": 1}).id


def test_a_duplicate_is_a_conflict_that_names_the_other_workflow(app: Stepwell) -> None:
    flow = declare(app)
    first = flow.start({"id": 1}, key="order 1")
    with pytest.raises(WorkflowConflict, match=first.id) as conflict:
        flow.start({"id": 2}, key="order 1")
    assert conflict.value.workflow_id == first.id
    app.run_until_idle()
    with pytest.raises(WorkflowConflict):
        flow.start({"id": 2}, key="order 1")  # also after it has settled
    flow.start({"id": 2}, key="order 2")
    assert count(app) == 2


def test_the_hash_covers_namespace_name_context_and_bypassed_steps_alone(app: Stepwell) -> None:
    flow, other, newer = declare(app), declare(app, name="returns"), declare(app, version="2")
    first = flow.start({"id": 1, "more": [1.0]}, identity="hash", initiator="web")
    same_requests: list[Callable[[], object]] = [
        lambda: flow.start({"more": [1], "id": 1}, identity="hash", initiator="crm", reason="again", tags=["x"]),
        lambda: newer.start({"id": 1, "more": [1]}, identity="hash"),
    ]
    for same in same_requests:
        with pytest.raises(WorkflowConflict, match=first.id):
            same()
    flow.start({"id": True, "more": [1]}, identity="hash")
    flow.start({"id": 1, "more": [1]}, identity="hash", bypass_steps=["wrap"])
    other.start({"id": 1, "more": [1]}, identity="hash")
    assert count(app) == 4


def start_in_process(url: str, number: int) -> str:
    with Stepwell(url) as app:
        try:
            return declare(app).start({"number": number}, key="the same").id
        except WorkflowConflict as conflict:
            return f"conflict with {conflict.workflow_id}"


@pytest.mark.slow
def test_of_simultaneous_duplicates_in_many_processes_one_is_made(shared_database_url: str) -> None:
    results = in_processes(start_in_process, [(shared_database_url, number) for number in range(4)])
    made = [each for each in results if not each.startswith("conflict")]
    assert len(made) == 1
    assert sorted(set(results)) == sorted({made[0], f"conflict with {made[0]}"})


class TestCallersTransaction:
    @pytest.fixture
    def app(self, shared_database_url: str, clock: ManualClock) -> Iterator[Stepwell]:
        with Stepwell(shared_database_url, clock=clock) as app:
            yield app

    @pytest.fixture
    def connection(self, app: Stepwell) -> Iterator[Any]:
        if app.database.dialect == "sqlite":
            made: Any = sqlite3.connect(app.database.url.removeprefix("sqlite:///"), timeout=0.1)
        else:
            made = psycopg.connect(app.database.url)
        with closing(made) as connection:
            connection.execute("CREATE TABLE orders (id integer PRIMARY KEY)")
            connection.commit()
            yield connection

    def test_a_start_commits_and_rolls_back_with_the_caller(self, app: Stepwell, connection: Any) -> None:
        flow = declare(app)
        connection.execute("INSERT INTO orders VALUES (1)")
        flow.start({}, connection=connection)
        assert count(app) == 0
        connection.rollback()
        assert count(app) == 0
        run = flow.start({}, connection=connection)
        connection.commit()
        app.run_until_idle()
        assert run.state == "complete"

    def test_a_conflict_leaves_the_callers_transaction_usable(self, app: Stepwell, connection: Any) -> None:
        flow = declare(app)
        flow.start({}, key="one")
        connection.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(WorkflowConflict):
            flow.start({}, key="one", connection=connection)
        flow.start({}, key="two", connection=connection)
        connection.commit()
        assert connection.execute("SELECT count(*) FROM orders").fetchone()[0] == 1
        assert count(app) == 2

    def test_a_duplicate_within_one_transaction_is_a_conflict(self, app: Stepwell, connection: Any) -> None:
        flow = declare(app)
        flow.start({}, key="one", connection=connection)
        with pytest.raises(WorkflowConflict):
            flow.start({}, key="one", connection=connection)
        connection.commit()
        assert count(app) == 1

    def test_a_rolled_back_start_leaves_its_key_free(self, app: Stepwell, connection: Any) -> None:
        flow = declare(app)
        flow.start({}, key="one", connection=connection)
        connection.rollback()
        flow.start({}, key="one")
        assert count(app) == 1

    def test_a_gate_of_a_workflow_of_the_callers_transaction_opens(self, app: Stepwell, connection: Any) -> None:
        flow = app.workflows("shop").workflow("gated")
        flow.gate("approval", result=bool)
        run = flow.start({}, connection=connection)
        connection.commit()
        app.run_until_idle()
        assert run.execution().waits_for_gates == ["approval"]
