"""While nothing is committed, polls cost nothing; what the clock changes is on the screen in time nevertheless."""

from __future__ import annotations

import multiprocessing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stepwell import Stepwell
from stepwell.testing import ManualClock
from stepwell.web.screens import pages
from tests.conformance.web.test_dashboard import client_of

pytestmark = [pytest.mark.sqlite_file]
FRAGMENT = {"x-stepwell-fragment": "1"}


@pytest.fixture(autouse=True)
def unshared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "SHARED_SECONDS", 0.0)


@pytest.fixture
def reads(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every read of the database."""
    counted: list[int] = []
    read = app.database.read

    def counting(work: Any) -> Any:
        counted.append(1)
        return read(work)

    monkeypatch.setattr(app.database, "read", counting)
    return counted


SCREENS = ("/", "/steps", "/workers", "/deploy", "/failures", "/schedules", "/groups", "/ticks", "/shares")


@pytest.mark.parametrize("screen", SCREENS)
def test_an_unchanged_database_is_answered_without_a_query(app: Stepwell, reads: list[int], screen: str) -> None:
    page = client_of(app)
    first = page.get(screen, headers=FRAGMENT)
    assert reads
    del reads[:]
    again = page.get(screen, headers={**FRAGMENT, "if-none-match": first.headers["etag"]})
    assert again.status_code == 304
    if app.database.dialect == "sqlite":
        assert reads == []
    else:
        assert reads, "PostgreSQL does not say whether anything was committed"


def test_what_anyone_commits_is_on_the_next_answer(app: Stepwell) -> None:
    page = client_of(app)
    before = page.get("/steps", headers=FRAGMENT).headers["etag"]
    app.enqueue("mail", {"to": "ann@example"})
    mine = page.get("/steps", headers={**FRAGMENT, "if-none-match": before})
    assert mine.status_code == 200
    if app.database.is_shared:
        with Stepwell(app.database.url) as other:
            other.enqueue("report")
        theirs = page.get("/steps", headers={**FRAGMENT, "if-none-match": mine.headers["etag"]})
        assert "report" in theirs.text


def test_a_screen_is_rendered_again_when_the_clock_may_have_changed_it(
    app: Stepwell, clock: ManualClock, reads: list[int]
) -> None:
    page = client_of(app)
    page.get("/", headers=FRAGMENT)
    clock.advance(5)
    del reads[:]
    page.get("/", headers=FRAGMENT)
    assert reads


def test_the_planned_end_of_a_pause_ends_what_is_kept(app: Stepwell, clock: ManualClock) -> None:
    page = client_of(app)
    app.breaker.pause("ann", "deploy", planned=timedelta(seconds=20))
    assert "banner late" not in page.get("/steps", headers=FRAGMENT).text
    clock.advance(19)
    assert "banner late" not in page.get("/steps", headers=FRAGMENT).text
    clock.advance(1)
    assert "banner late" in page.get("/steps", headers=FRAGMENT).text


def test_the_badge_of_causes_is_of_the_moment_of_the_screen(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "SHARED_SECONDS", 0.0)

    @app.job(max_retries=0)
    def work() -> None:
        raise ValueError("no")

    page = client_of(app)
    assert 'class="badge' not in page.get("/ticks", headers=FRAGMENT).text
    app.enqueue("work")
    app.run_until_idle()
    assert "✗1" in page.get("/ticks", headers=FRAGMENT).text


def test_a_whole_page_has_the_time_of_its_answer(app: Stepwell, clock: ManualClock) -> None:
    page = client_of(app)
    tags = []
    for _ in range(2):
        answer = page.get("/steps")
        assert f'data-now="{clock.now().timestamp():.3f}"' in answer.text
        tags.append(answer.headers["etag"])
        clock.advance(3)
    assert tags[0] == tags[1]


def _version_of(app: Stepwell, found: Any) -> None:
    found.put(app.database.data_version() is not None)


def test_a_forked_process_asks_with_a_connection_of_its_own(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    with Stepwell(f"sqlite:///{tmp_path}/forked.db") as app:
        before = app.database.data_version()
        found: Any = fork.Queue()
        child = fork.Process(target=_version_of, args=(app, found))
        child.start()
        assert found.get(timeout=30)
        child.join()
        after = app.database.data_version()
        assert after != before, "the connection was closed for the fork: nothing is known of the time between"
        app.enqueue("mail")
        assert app.database.data_version() != after
