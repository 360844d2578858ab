"""`stepwell workflows` with all its commands, and `show`, `tree` and `explain` of a workflow."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.support import ask, on_terminal, run

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
    return json.loads(ended.stdout or ended.stderr)  # an error is JSON, too


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
    assert run(shop.split()[0], "workflows", "list", "--name", "nope").stdout == "No workflows match.\n"


def test_the_request_of_a_start_is_recorded_and_a_duplicate_is_refused(shop: str) -> None:
    words = ("start", "flow", "--namespace", "shop", "--context", '{"n": 1}', "--identity", "hash")
    first = command(shop, *words, "--source-system", "billing", app=True)
    assert first["source_system"] == "billing"
    assert first["id"] in command(shop, *words, app=True, code=1)["error"]["messages"][0]


@pytest.mark.parametrize("name", ["flow", "shop.flow"])
def test_a_workflow_of_another_namespace_is_suggested(shop: str, name: str) -> None:
    (message,) = command(shop, "start", name, app=True, code=1)["error"]["messages"]
    assert message.endswith("did you mean 'flow' in the namespace 'shop'?")


def test_a_workflow_is_paused_resumed_cancelled_retried_and_resolved(shop: str) -> None:
    started = command(shop, "start", "flow", "--namespace", "shop", "--context", '{"n": 1}', app=True)["id"]
    command(shop, "pause", started, "--why", "deploy")
    url, _ = shop.split()
    assert "; resumed" in run(url, "workflows", "resume", started).stdout
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
    assert command(shop, "check", "--live", str(bad), app=True, code=1)["problems"] == [problem]


def started(shop: str, *words: str) -> str:
    found: str = command(shop, "start", "flow", "--namespace", "shop", "--context", '{"n": 1}', *words, app=True)["id"]
    return found


def test_a_step_of_a_workflow_is_completed_by_its_name_with_a_checked_result(shop: str) -> None:
    flow = started(shop)
    command(shop, "complete", flow, "first", "--result", '"text"', code=1)
    command(shop, "complete", flow, "first", code=1)  # another step takes the result
    done = command(shop, "complete", flow[:30], "first", "--result", "7", "--who", "ann", "--why", "by phone")
    assert (done["step"]["state"], done["step"]["response"], done["step"]["actor"]) == ("Completed", 7, "operator:ann")
    assert done["workflow"]["state"] == "in_progress"


def test_attempts_are_reset_and_what_is_not_skippable_is_not_skipped(shop: str) -> None:
    flow = started(shop)
    assert command(shop, "reset-attempts", flow, "first")["step"]["attempts"] == 0
    command(shop, "skip", flow, "first", code=1)
    command(shop, "complete", flow, "nothing", "--result", "1", code=1)
    command(shop, "pause", "ffffffff", code=1)


def test_many_workflows_are_previewed_and_acted_on_by_filter(shop: str) -> None:
    url, _ = shop.split()
    flows = {started(shop), started(shop)}
    seen = command(shop, "cancel", "--name", "flow", "--preview")
    assert {item["workflow_id"] for item in seen["items"]} == flows
    assert seen["counts"]["done"] == 2
    later = started(shop)
    done = ask(url, "operations", "start", str(seen["preview"]["id"]), "--who", "ann")
    assert done["progress"]["done"] == 2
    assert [row["id"] for row in command(shop, "list", "--state", "pending")] == [later]
    command(shop, "retry", "--state", "cancelled", code=2)  # many, with --json: only with --yes
    assert command(shop, "retry", "--state", "cancelled", "--yes")["progress"]["done"] == 2
    command(shop, "cancel", code=2)


def test_a_workflow_is_shown_as_it_was_and_as_a_tree(shop: str) -> None:
    url, _ = shop.split()
    flow = started(shop)
    before = ask(url, "show", flow)["workflow"]["created_at"]
    work(shop)
    then, now = ask(url, "show", flow, "--at", before), ask(url, "show", flow)
    assert (then["state"], {step["state"] for step in then["steps"]}) == ("pending", {"Pending"})
    assert now["workflow"]["state"] == "in_progress"
    first = now["steps"][0]["id"]
    assert ask(url, "show", str(first), "--at", before)["state"] == "Pending"
    assert ask(url, "show", str(first), "--at", "2020-01-01T00:00:00Z") is None
    run(url, "show", flow, "--at", "2999-01-01", code=2)
    run(url, "show", flow, "--at", "yesterday", code=2)
    assert "pending" in run(url, "show", flow, "--at", before).stdout
    assert [each["step"]["template"] for each in ask(url, "tree", flow)] == ["first", "ask", "last"]
    drawn = run(url, "tree", flow[:30]).stdout
    assert "after first, ask" in drawn


def test_a_workflow_is_explained_down_to_the_root_causes_of_all_its_steps(shop: str) -> None:
    url, _ = shop.split()
    flow = started(shop)
    found = ask(url, "explain", flow)
    assert len(found["steps"]) == 3
    assert {(root["condition"], root["is_later"]) for root in found["roots"]} == {("workers", False), ("gate", True)}
    work(shop)
    found = ask(url, "explain", flow)
    assert [step["state"] for step in found["steps"]] == ["Pending", "Pending"]
    assert {root["condition"] for root in found["roots"]} == {"gate", "workers"}  # the inline worker is gone
    assert "Root causes" in run(url, "explain", flow).stdout
    command(shop, "cancel", flow)
    assert {step["state"] for step in ask(url, "explain", flow)["steps"]} == {"Cancelled"}


def test_a_list_fits_80_columns_with_ids_that_every_command_takes(shop: str) -> None:
    url, _ = shop.split()
    flows = [started(shop), started(shop)]
    lines = on_terminal(url, "workflows", "list")
    assert max(map(len, lines)) <= 80
    rows = [line.split()[:3] for line in lines if line.startswith(flows[0][:4])]
    assert [(name, state) for _, name, state in rows] == [("shop.flow", "pending")] * 2
    shown = [command(shop, "show", short)["workflow"]["id"] for short, *_ in rows]
    assert shown == flows[::-1]
    assert flows[0] in run(url, "workflows", "list").stdout, "whole, where there is no terminal"


def test_the_history_of_a_workflow_is_a_table_below_its_whole_id(shop: str) -> None:
    url, _ = shop.split()
    flow = started(shop)
    work(shop)
    text = run(url, "workflows", "show", flow[:30]).stdout
    assert f"id        {flow}\n" in text
    history = text.partition("History\n")[2].splitlines()
    assert history[0].split() == ["TIME", "(UTC)", "STATE", "BY", "WHY"]
    assert [line[28:].split()[0] for line in history[1:]] == ["pending", "in_progress"]
