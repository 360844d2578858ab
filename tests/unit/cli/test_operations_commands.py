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
