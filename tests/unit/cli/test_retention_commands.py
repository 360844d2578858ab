"""`prune`, `archive` and what other commands say about steps that are gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell import NewStep, Stepwell
from tests.unit.cli.support import ask, run


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Three steps that have ended and one that waits."""
    url = f"sqlite:///{tmp_path}/test.db"
    with Stepwell(url) as app:

        @app.job()
        def double(number: int) -> int:
            return 2 * number

        app.enqueue_many([double.draft(number) for number in range(3)])
        app.run_until_idle()
        app.enqueue_many([NewStep(action="unknown here")])
    return url


def test_prune_deletes_what_has_ended_and_says_how_much(url: str) -> None:
    assert run(url, "prune").stdout.startswith("0 workflows with 0 steps deleted in")
    dry = run(url, "prune", "--keep-days", "0", "--preview").stdout
    assert dry == "3 workflows with 3 steps would be deleted.\n"
    assert run(url, "prune", "--keep-days", "0", "--dry-run").stdout == dry  # its former name
    found = ask(url, "prune", "--keep-days", "0")
    assert (found["workflows"], found["steps"], found["dry_run"]) == (3, 3, False)
    assert len(ask(url, "steps")) == 1
    assert "retention has deleted settled workflows with steps up to 3" in run(url, "show", "1", code=1).stderr


def test_an_archived_step_is_still_shown(url: str) -> None:
    assert ask(url, "archive", "--keep-days", "0")["steps"] == 3
    shown = run(url, "show", "2").stdout
    assert shown.startswith("step 2 double  Completed\narchived on 20")
    assert "Dispatched → Running" in shown or "Running" in shown
    document = ask(url, "show", "2")
    assert (document["step"]["response"], len(document["history"])) == (2, 4)
    assert document["archived_at"].startswith("20")
    for command in (["explain", "2"], ["retry", "2", "--why", "x"], ["show", "2", "--at", "2026-01-01"], ["tree", "2"]):
        result = run(url, *command, code=1)
        assert "was archived on 20" in result.stdout + result.stderr
    assert ask(url, "prune", "--archive-days", "0", "--keep-days", "forever")["from_archive"] == 3
    run(url, "show", "2", code=1)


def test_a_key_that_is_promised_keeps_its_workflow(url: str) -> None:
    with Stepwell(url) as app:

        @app.job()
        def double(number: int) -> int:
            return 2 * number

        double.options(key="once").enqueue(1)
        app.run_until_idle()
    out = run(url, "prune", "--keep-days", "0").stdout
    assert "1 workflow kept because an idempotency key" in out
    assert ask(url, "prune", "--keep-days", "0", "--key-days", "0")["steps"] == 1


def test_what_up_keeps_is_what_prune_keeps(url: str) -> None:
    with Stepwell(url) as app:
        part = app.parts.retention()
        app.retention.options = type(app.retention.options)(keep_days=float("inf"))
        part.open()
    assert "everything is kept" in run(url, "doctor", code=1).stdout
    assert ask(url, "prune")["steps"] == 0


def test_options_that_exclude_each_other_are_refused(url: str) -> None:
    assert "exclude each other" in run(url, "prune", "--before", "2026-01-01", "--keep-days", "3", code=2).stderr
    assert "forever" in run(url, "prune", "--keep-days", "soon", code=2).stderr
    assert ask(url, "prune", "--before", "2020-01-01")["steps"] == 0
