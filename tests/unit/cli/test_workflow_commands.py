"""`stepwell workflows`: list, show, start, check, export, answer, rerun, cancel, retry, resolve, pause, resume."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.support import run

MODULE = """
from stepwell import Stepwell
app = Stepwell({url!r})
flow = app.workflows("shop").workflow("flow", context={{"properties": {{"n": {{"type": "integer"}}}}}})
@flow.step
def first(n: int) -> int:
    return n + 1
ask = flow.gate("ask", after=[first], result={{"type": "boolean"}})
@flow.step
def last(first: int, ask: bool) -> int:
    return first if ask else 0
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path}/shop.db"
    name = f"shop_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(MODULE.format(url=url))
    monkeypatch.chdir(tmp_path)
    return f"{url} {name}"


def command(shop: str, *words: str, app: bool = False, code: int = 0) -> Any:
    url, name = shop.split()
    given = ["--app", f"{name}:app"] if app else []
    ended = run(url, "workflows", *words, *given, "--json", code=code)
    return json.loads(ended.stdout)


def work(shop: str) -> None:
    with importlib.import_module(shop.split()[1]).app as app:  # the command has imported it
        app.run_until_idle()


def test_a_workflow_is_started_shown_answered_and_listed(shop: str) -> None:
    started = command(shop, "start", "flow", "--namespace", "shop", "--context", '{"n": 1}', "--tag", "a", app=True)
    assert (started["state"], started["tags"]) == ("pending", ["a"])
    work(shop)
    shown = command(shop, "show", started["id"])
    assert [step["state"] for step in shown["steps"]] == ["Completed", "Pending", "Pending"]
    assert command(shop, "answer", started["id"], "ask", "true")["state"] == "in_progress"
    work(shop)
    (row,) = command(shop, "list", "--state", "complete")
    assert (row["id"], row["completed"], row["total"]) == (started["id"], 3, 3)
    again = command(shop, "rerun", started["id"], "last")
    assert (again["rerun_of"], again["state"]) == (started["id"], "pending")


def test_a_workflow_is_paused_resumed_cancelled_retried_and_resolved(shop: str) -> None:
    started = command(shop, "start", "flow", "--namespace", "shop", "--context", '{"n": 1}', app=True)["id"]
    command(shop, "pause", started, "--why", "deploy")
    command(shop, "resume", started)
    assert len(command(shop, "cancel", started)["steps"]) == 3
    assert len(command(shop, "retry", started)["steps"]) == 3
    command(shop, "cancel", started)
    assert command(shop, "resolve", started, "--why", "done by hand")["workflow"]["state"] == "resolved_manually"


def test_workflows_are_checked_and_exported(shop: str, tmp_path: Path) -> None:
    url, name = shop.split()
    assert command(shop, "check", app=True) == {"problems": []}
    assert command(shop, "check", "--live", app=True) == {"problems": []}
    exported = run(url, "workflows", "export", "flow", "--namespace", "shop", "--app", f"{name}:app").stdout
    assert "name: flow" in exported
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: bad\nsteps:\n  - name: a\n    handler: nobody\n")
    (problem,) = command(shop, "check", str(bad), app=True, code=1)["problems"]
    assert "bad.yaml:4" in problem
