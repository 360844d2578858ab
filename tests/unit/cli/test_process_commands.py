"""`stepwell processes`, `shares` and `heartbeat`: what people and programs see."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell import NOT_COMPLETED, Stepwell
from stepwell.processes.errors import TaskStateError
from tests.unit.cli.support import ask, run, run_bare


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database with a task that is not_completed, and a queueing that failed because of it."""
    url = f"sqlite:///{tmp_path}/shop.db"
    with Stepwell(url) as app:
        app.job(name="sync")(lambda: NOT_COMPLETED)
        app.job(name="mail")(lambda: None)
        task = {"timeout": 60, "cooldown": 5}
        processes = app.main_processes.configure(
            {
                "priority_strategy": "DivideTotalValueEqually",
                "main_processes": {"nightly": {"tasks": [{"class": "sync"}, {"class": "mail"}]}},
                "tasks": {name: {"class": name, "priority": 10, **task} for name in ("sync", "mail")},
            }
        )
        processes.queue("nightly")
        app.run_until_idle()
        with pytest.raises(TaskStateError):
            processes.queue("nightly")
    return url


def test_processes_lists_tasks_and_why_queueings_failed(url: str) -> None:
    found = ask(url, "processes")
    assert [(task["task_class"], task["state"]) for task in found["tasks"]] == [
        ("mail", "completed"), ("sync", "not_completed"),
    ]  # fmt: skip
    (failed,) = found["failed_queueings"]
    assert (failed["error"], failed["task_class"], failed["resolved_at"]) == ("TaskStateError", "sync", None)
    text = run(url, "processes").stdout
    assert "not_completed" in text
    assert "it has to be rescheduled first" in " ".join(text.split())
    assert "Failed queueings" not in run(url, "processes", "--failures", "0").stdout


def test_explain_says_that_the_task_waits_for_the_reschedule_beat(url: str) -> None:
    step = next(task["step_id"] for task in ask(url, "processes")["tasks"] if task["task_class"] == "sync")
    text = " ".join(run(url, "explain", str(step)).stdout.split())
    assert "it waits for the reschedule beat" in text
    assert "the queueing of main process nightly failed" in text
    assert "stepwell heartbeat reschedule" in text


def test_shares_prints_promised_against_delivered(url: str) -> None:
    found = ask(url, "shares")
    assert [(row["task_class"], row["promised"], row["runs"]) for row in found] == [("mail", 0.5, 1), ("sync", 0.5, 1)]
    assert sum(row["delivered"] for row in found) == pytest.approx(1)
    lines = run(url, "shares").stdout.splitlines()
    assert lines[0].split() == ["CLASS", "PRIORITY", "RUNS", "PROMISED", "DELIVERED"]
    assert lines[1].split()[:4] == ["mail", "10", "1", "50.0%"]


def test_without_main_processes_both_say_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/empty.db"
    Stepwell(url).open().close()
    assert run(url, "processes").stdout == "No task has been queued yet.\n"
    assert run(url, "shares").stdout == "No task has run yet.\n"


def test_an_unknown_kind_of_heartbeat_is_a_misuse() -> None:
    assert "'queue', 'execute', 'reschedule'" in run_bare("heartbeat", "dance", "--app", "x:y", code=2).stderr
