"""`stepwell operations`, and `retry`, `cancel` and `skip` of all steps that match."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stepwell import State, Stepwell
from stepwell.testing import behave
from tests.unit.cli.support import ask, run


@pytest.fixture
def app(shared_database_url: str) -> Iterator[Stepwell]:
    with Stepwell(shared_database_url) as app:
        behave(app)
        yield app


def states(app: Stepwell) -> dict[str, int]:
    found = [str(step.state) for step in app.steps()]
    return {state: found.count(state) for state in found}


def test_a_preview_changes_nothing_and_start_acts_on_exactly_what_it_froze(app: Stepwell) -> None:
    url = app.database.url
    for _ in range(3):
        app.enqueue("behave")
    seen = ask(url, "cancel", "--state", "Pending", "--action", "behave", "--preview")
    assert (seen["counts"]["done"], len(seen["items"])) == (3, 3)
    assert states(app) == {"Pending": 3}
    late = app.enqueue("behave")
    done = ask(url, "operations", "start", str(seen["preview"]["id"]), "--who", "ann", "--why", "wrong list")
    assert done["progress"]["done"] == 3
    assert states(app) == {"Pending": 1, "Cancelled": 3}
    assert app.step(late).state is State.PENDING
    (row,) = ask(url, "operations", "list")
    assert (row["kind"], row["actor"], row["reason"]) == ("cancel", "operator:ann", "wrong list")
    assert {item["outcome"] for item in ask(url, "operations", "show", str(row["id"]))["items"]} == {"done"}
    assert "filters  action=behave, state=Pending\n" in run(url, "operations", "show", str(row["id"])).stdout
    assert ask(url, "operations", "undo", str(row["id"]))["progress"]["done"] == 3
    assert states(app) == {"Pending": 4}
    ask_again = run(url, "operations", "undo", str(row["id"]), code=1)
    assert "was undone by operation" in ask_again.stderr


def test_many_steps_are_acted_on_after_a_question(app: Stepwell) -> None:
    url = app.database.url
    app.enqueue("behave")
    app.enqueue("behave")
    assert "nothing changed" in run(url, "skip", "--action", "behave", stdin="n\n").stdout
    assert states(app) == {"Pending": 2}
    assert "2 of 2 items done" in run(url, "cancel", "--action", "behave", stdin="y\n").stdout
    assert ask(url, "retry", "--state", "Cancelled", "--yes")["progress"]["done"] == 2
    assert states(app) == {"Pending": 2}


def test_what_cannot_work_is_refused_with_a_hint(app: Stepwell) -> None:
    url = app.database.url
    step = app.enqueue("behave")
    assert "needs a STEP, or filters" in run(url, "cancel", code=2).stderr
    assert "not both" in run(url, "cancel", str(step.id), "--action", "behave", code=2).stderr
    assert "--yes" in run(url, "cancel", "--action", "behave", "--json", code=2).stderr
    assert "does not exist" in run(url, "operations", "show", "77", code=1).stderr
    assert ask(url, "retry", str(step.id), "--preview")["counts"]["refused"] == 1
    assert states(app) == {"Pending": 1}


def test_the_list_says_what_each_operation_was_about(app: Stepwell) -> None:
    url = app.database.url
    step = app.enqueue("behave")
    app.enqueue("behave")
    ask(url, "cancel", str(step.id))
    ask(url, "retry", "--state", "Cancelled", "--yes")
    ask(url, "cancel", "--action", "behave", "--yes")
    app.limits.set("queue", "default", 3, who="ann")
    lines = run(url, "operations", "list").stdout.splitlines()
    abouts = ("limit queue, name default, maximum 3", "2 steps", f"step {step.id}", f"step {step.id}")
    for line, about in zip(lines[-4:], abouts, strict=True):
        assert f" {about} " in line, lines


def test_an_action_on_many_of_which_none_was_done_ends_with_1(app: Stepwell) -> None:
    url = app.database.url
    app.enqueue("behave")
    assert "0 of 1 item done" in run(url, "retry", "--state", "Pending", "--yes", code=1).stdout
    refused = ask(url, "retry", "--state", "Pending", "--yes", code=1)
    assert [item["outcome"] for item in refused["items"]] == ["refused"]
    assert ask(url, "retry", "--state", "Failed", "--yes")["items"] == [], "nothing matched, nothing to do"


def test_an_operation_without_items_is_shown_without_a_table(app: Stepwell) -> None:
    url = app.database.url
    run(url, "limits", "--total", "5", "--who", "ann")
    run(url, "limits", "--total", "none", "--who", "ann")
    removed, added = app.operations.newest()
    assert run(url, "operations", "show", str(added.id)).stdout == (
        f"operation {added.id} set_limit is done\nabout  limit total, maximum 5\nby     operator:ann\n"
    )
    assert "about  limit total, no maximum\n" in run(url, "operations", "show", str(removed.id)).stdout
    again = run(url, "operations", "start", str(added.id), code=1).stderr
    assert f"operation {added.id} was executed by operator:ann at " in again
    assert again.endswith(" UTC and is done; nothing changed\n")


def test_secrets_of_an_operation_are_not_shown(app: Stepwell) -> None:
    """Also not as JSON: its parameters and its reason are stored as they were given."""
    url = app.database.url
    step = app.enqueue("behave")
    why = "postgresql://ann:s3cret@db/jobs was down"
    app.operations.preview("complete", id=[step.id], result={"token": "s3cret"}).execute(who="ann", why=why)
    (row,) = app.operations.newest()
    assert "s3cret" in f"{row.parameters}"
    assert "s3cret" in f"{row.reason}"
    for words in (["list"], ["list", "--json"], ["show", str(row.id)], ["show", str(row.id), "--json"]):
        shown = run(url, "operations", *words).stdout
        assert "s3cret" not in shown
        assert "[redacted]" in shown or words == ["list"]
