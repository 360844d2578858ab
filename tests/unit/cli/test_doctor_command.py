"""`stepwell doctor`: it finds and reports what is broken, and its exit code tells whether it did."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from stepwell import Stepwell, __version__
from stepwell.testing import behave
from tests.unit.cli.support import ask, on_terminal, plain_sql, run


@pytest.fixture
def app(shared_database_url: str) -> Iterator[Stepwell]:
    with Stepwell(shared_database_url) as app:
        behave(app)
        app.enqueue("behave", {"spawn": [{}, {"index": 2}]})
        app.run_until_idle()
        yield app


def url_of(app: Stepwell) -> str:
    return app.database.url


def test_a_healthy_database_ends_with_0_and_names_the_versions(app: Stepwell) -> None:
    document = ask(url_of(app), "doctor")
    assert document["healthy"] is True
    assert document["stepwell"] == __version__
    if app.database.dialect == "sqlite":
        assert document["database"] == f"SQLite {sqlite3.sqlite_version}"
    else:
        assert document["database"].startswith("PostgreSQL ")
    assert document["schema"]["version"] == document["schema"]["known"] >= 1
    assert (document["violations"], document["repairs"], document["unserved"]) == ([], [], [])
    shown = run(url_of(app), "doctor").stdout
    assert "invariants     OK" in shown
    assert "bookkeeping    OK, no repairs needed" in shown
    assert max(map(len, on_terminal(url_of(app), "doctor"))) <= 80


def test_work_that_no_live_worker_serves_is_counted(app: Stepwell) -> None:
    for _ in range(3):
        app.enqueue("bake")
    app.enqueue("behave", queue="candles")
    app.enqueue("later", delay=3_600)
    document = ask(url_of(app), "doctor", code=1)
    assert document["unserved"] == [
        {"queue": "default", "action": "bake", "steps": 3},
        {"queue": "candles", "action": "behave", "steps": 1},
    ]
    assert (
        "4 eligible steps that no live worker serves: 3 × bake in default, 1 × behave in candles"
        in run(url_of(app), "doctor", code=1).stdout
    )
    runner = app.inline_runner()
    assert [lane["action"] for lane in ask(url_of(app), "doctor", code=1)["unserved"]] == ["bake"]
    runner.close()


def test_a_paused_breaker_is_reported_and_is_not_a_failure(app: Stepwell) -> None:
    app.breaker.pause("ann", "deploy")
    assert "PAUSED by ann since " in run(url_of(app), "doctor").stdout


def test_a_violated_invariant_is_found(app: Stepwell) -> None:
    plain_sql(
        url_of(app), "UPDATE step_transitions SET to_state = 'Failed' WHERE to_state = 'Completed' AND step_id = 1"
    )
    for flags in ([], ["--invariants"]):
        document = ask(url_of(app), "doctor", *flags, code=1)
        assert {violation["step_id"] for violation in document["violations"]} == {1}
        assert "step 1 violates 'history and state agree'" in run(url_of(app), "doctor", *flags, code=1).stdout
    assert "violations" not in ask(url_of(app), "doctor", "--sweep")


def test_a_lost_mark_is_repaired_and_reported_once(app: Stepwell) -> None:
    step = app.enqueue("bake")
    plain_sql(url_of(app), f"DELETE FROM steps_agenda WHERE step_id = {step.id}")
    assert "repairs" not in ask(url_of(app), "doctor", "--invariants", code=1)
    document = ask(url_of(app), "doctor", "--sweep", code=1)
    assert [finding["step_id"] for finding in document["repairs"]] == [step.id]
    assert ask(url_of(app), "doctor", "--sweep") == {"healthy": True, "repairs": []}


def test_a_repaired_mark_is_described_in_words(app: Stepwell) -> None:
    step = app.enqueue("bake")
    plain_sql(url_of(app), f"DELETE FROM steps_agenda WHERE step_id = {step.id}")
    result = run(url_of(app), "doctor", "--sweep", code=1)
    assert "bookkeeping    1 finding" in result.stdout
    assert f"step {step.id}: it is ready, but not on the agenda" in result.stdout
    assert result.stderr == ""


def test_rows_that_were_set_aside_are_listed_by_doctor_and_ticks(app: Stepwell) -> None:
    plain_sql(url_of(app), "INSERT INTO steps (action, arguments) VALUES ('behave', '[1]')")
    app.run_until_idle()
    (row,) = ask(url_of(app), "doctor")["set_aside"]
    assert (row["action"], row["reason"]) == ("behave", "refused")
    assert "not a JSON object" in row["error_message"]
    for command in ("doctor", "ticks"):
        shown = run(url_of(app), command).stdout
        assert f"step {row['id']}" in shown
        assert "not a JSON object" in shown
    assert run(url_of(app), "skip", str(row["id"])).stdout
    assert ask(url_of(app), "doctor")["set_aside"] == []
