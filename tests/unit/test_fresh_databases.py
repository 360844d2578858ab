"""The databases that tests get: a copy holds nothing of the one before it, and shares nothing with its neighbours."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stepwell import Stepwell
from tests import databases
from tests.conformance.support.wakes import first_wakes
from tests.databases import Templates


def contents(app: Stepwell) -> dict[str, Any]:
    """What a test could leave behind: settings, groups, queues, and the numbers that come next."""
    step = app.enqueue("anybody")
    return {
        "steps": [found.id for found in app.steps()],
        "first id": step.id,
        "first group": app.step(step).group,
        "breaker": app.breaker.state(),
        "groups": [group.group for group in app.groups()],
        "limits": app.limits.all(),
    }


@pytest.mark.parametrize("kind", ["sqlite-file", "postgres"])
def test_a_copy_holds_nothing_of_the_one_before_it(
    request: pytest.FixtureRequest, templates: Templates, tmp_path: Path, kind: str
) -> None:
    if kind == "postgres":
        request.getfixturevalue("postgres_server")
    found = []
    for _ in range(2):
        with templates.copy(kind, tmp_path) as url, Stepwell(url) as app:
            found.append(contents(app))
            app.enqueue("anybody", group="a group of its own")
            app.limits.set("total", "", 3)
            app.breaker.pause("tester")
    assert found[0] == found[1]
    assert (found[0]["first id"], found[0]["limits"]) == (1, {})


@pytest.mark.postgres
def test_wake_ups_do_not_reach_another_copy(postgres_server: None, templates: Templates, tmp_path: Path) -> None:
    with (
        templates.copy("postgres", tmp_path) as here,
        templates.copy("postgres", tmp_path) as there,
        Stepwell(here) as app,
        Stepwell(there) as other,
        closing(app.database.listen()) as listener,
    ):
        other.enqueue("anybody")
        assert not listener.poll_wakes()
        app.enqueue("anybody")
        assert first_wakes(listener)


@pytest.mark.postgres
def test_a_transaction_that_a_test_leaves_open_is_reported(
    postgres_server: None, templates: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "TRANSACTION_SECONDS", 0.0)
    reported = pytest.raises(AssertionError, match="still holds a transaction open")
    with reported, templates.copy("postgres", tmp_path) as url:
        left_open = psycopg.connect(url)
        left_open.execute("SELECT 1")
    left_open.close()
