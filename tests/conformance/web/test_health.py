"""Health: red when the system does not do its work, and which part of it; metrics for Prometheus."""

from __future__ import annotations

import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stepwell import Stepwell
from stepwell.model.errors import DatabaseUnavailable
from stepwell.testing import ManualClock
from stepwell.web.health import FORGOTTEN, STALLED
from tests.conformance.web.support import client, web


def verdicts(app: Stepwell) -> tuple[str, dict[str, str]]:
    answer = client(web(app)).get("/health/status")
    found = answer.json()
    assert answer.status_code == (503 if found["status"] == "red" else 200)
    return found["status"], {check["name"]: check["verdict"] for check in found["checks"]}


def test_an_idle_system_is_healthy(app: Stepwell) -> None:
    assert verdicts(app)[0] == "ok"
    for path in ("live", "ready"):
        assert client(web(app), None).get(f"/health/{path}").json() == {"status": "ok"}


def test_work_that_no_live_worker_serves_is_red(app: Stepwell) -> None:
    app.enqueue("unknown")
    assert verdicts(app) == ("red", {"breaker": "ok", "progress": "ok", "workers": "red"})


def test_work_that_is_ready_and_does_not_move_is_red(app: Stepwell, clock: ManualClock) -> None:
    @app.job()
    def work() -> None: ...

    app.enqueue("work")
    assert verdicts(app)[1]["progress"] == "ok"
    clock.advance(STALLED.total_seconds() + 1)
    assert verdicts(app)[1]["progress"] == "red"
    app.run_until_idle()
    assert verdicts(app)[1]["progress"] == "ok"


def test_a_breaker_that_was_forgotten_is_red(app: Stepwell, clock: ManualClock) -> None:
    app.breaker.pause("ann", "deploy")
    assert verdicts(app) == ("warn", {"breaker": "warn", "workers": "ok"})
    clock.advance(FORGOTTEN.total_seconds() + 1)
    assert verdicts(app)[1]["breaker"] == "red"
    answer = client(web(app)).get("/health/status").text
    assert "operator:ann" in answer
    assert "stepwell resume" in answer


def test_a_pause_is_red_as_soon_as_its_planned_end_is_over(app: Stepwell, clock: ManualClock) -> None:
    app.breaker.pause("ann", "migration", planned=3 * FORGOTTEN)
    clock.advance(2 * FORGOTTEN.total_seconds())
    assert verdicts(app)[1]["breaker"] == "warn"
    clock.advance(FORGOTTEN.total_seconds())
    assert verdicts(app)[1]["breaker"] == "red"
    assert "planned until" in client(web(app)).get("/health/status").text


def test_a_schedule_whose_slot_nobody_decides_is_red(app: Stepwell, clock: ManualClock) -> None:
    @app.job()
    def report() -> None: ...

    app.schedules.create("hourly", "0 * * * *", "report", who="ann")
    assert verdicts(app)[0] == "ok"
    clock.advance(3600 + 2 * app.schedules.options.poll_interval_seconds + 60)
    assert verdicts(app)[1]["schedules"] == "red"


def test_a_schedule_that_did_not_succeed_in_time_is_red(app: Stepwell, clock: ManualClock) -> None:
    @app.job()
    def report() -> None: ...

    app.schedules.create("hourly", "0 * * * *", "report", expect_within=600, who="ann")
    clock.advance(3600)
    app.schedules.run_once()
    clock.advance(601)
    assert "has not succeeded" in client(web(app)).get("/health/status").text
    app.run_until_idle()
    assert "has not succeeded" not in client(web(app)).get("/health/status").text


def test_a_counter_that_is_wrong_is_red(lawless_app: Stepwell) -> None:
    app = lawless_app
    app.enqueue("work", queue="priority")
    app.dispatch_once()
    assert "counters" not in verdicts(app)[1]
    app.database.transact(lambda tx: tx.execute("DELETE FROM steps_tally", {}))
    app.database.transact(
        lambda tx: tx.execute(
            'INSERT INTO steps_totals (state, action, queue, "group", hostname, child, throttled, number) '
            "VALUES ('Dispatched', 'work', 'priority', 'alpha', '', false, false, -3)",
            {},
        )
    )
    assert verdicts(app)[1]["counters"] == "red"


@pytest.mark.one_database
def test_a_process_without_its_database_is_live_but_not_ready(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise DatabaseUnavailable("cannot reach postgresql://ann:s3cret@db")

    program = client(web(app))
    monkeypatch.setattr(app.breaker, "state", away)
    assert program.get("/health/live").status_code == 200
    ready = program.get("/health/ready")
    assert ready.status_code == 503
    assert "s3cret" not in ready.text
    status = program.get("/health/status")
    assert (status.status_code, status.json()["status"]) == (503, "red")


def test_metrics_have_the_figures_of_the_database(app: Stepwell) -> None:
    @app.job()
    def work(number: int) -> float:
        return 1 / number

    app.enqueue("work", {"number": 1})
    app.enqueue("work", {"number": 0}, max_retries=0)
    app.run_until_idle()
    app.enqueue("work", {"number": 2}, delay=60)
    answer = client(web(app)).get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["stepwell_steps", "Completed"] == 1
    assert samples["stepwell_steps", "Failed"] == 1
    assert samples["stepwell_unfinished_steps", "work", "pending"] == 1
    assert samples["stepwell_dispatching",] == 1
    assert samples["stepwell_health", "workers"] == 0
    assert client(web(app)).get("/metrics").status_code == 200


@pytest.mark.one_database
def test_without_the_library_metrics_say_what_to_install(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    answer = client(web(app)).get("/metrics")
    assert (answer.status_code, answer.json()["help"]) == (501, "pip install 'stepwell[metrics]'")
