"""The stream of changes for programs: each change once, also those of other processes, in spite of reconnects."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest

from stepwell import Stepwell
from stepwell.model.states import State
from stepwell.store.engine.reading import StepChange
from stepwell.web.api.stream import WINDOW, Follower
from tests.conformance.web.support import browser, client, web

pytestmark = pytest.mark.sqlite_file


class Seen(msgspec.Struct):
    id: int
    action: str
    to_state: State


def events(app: Stepwell, query: str, count: int, **headers: str) -> list[tuple[int, Seen]]:
    """The first events of a stream, each with the id that a client would send after a reconnect."""
    made = web(app)
    found: list[tuple[int, Seen]] = []

    def read(lines: Iterator[str]) -> None:
        resume = 0
        for line in lines:
            if line.startswith("id: "):
                resume = int(line[4:])
            elif line.startswith("data: "):
                found.append((resume, msgspec.json.decode(line[6:], type=Seen)))
                if len(found) == count:
                    made.site.stopping.set()

    with client(made).stream("GET", f"/api/v1/events?{query}", headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        read(answer.iter_lines())
    return found[:count]


def test_changes_are_sent_once_in_order_and_resumed_without_a_loss(app: Stepwell) -> None:
    @app.job()
    def work() -> None: ...

    app.enqueue("work")
    app.run_until_idle()
    found = events(app, "after=0", 4)
    assert [seen.to_state for _, seen in found] == ["Pending", "Dispatched", "Running", "Completed"]
    for resume, seen in found:
        assert resume <= seen.id
        rest = events(app, "after=999", 4 - resume, **{"last-event-id": str(resume)}) if resume < 4 else []
        assert {each.id for _, each in rest} >= {each.id for _, each in found if each.id > seen.id}


def test_a_stream_can_be_narrowed_to_states_and_actions(app: Stepwell) -> None:
    @app.job()
    def work() -> None: ...

    @app.job()
    def other() -> None: ...

    app.enqueue("other")
    app.enqueue("work")
    app.run_until_idle()
    found = events(app, "after=0&action=work&state=Completed&state=Failed", 1)
    assert [(seen.action, seen.to_state) for _, seen in found] == [("work", "Completed")]


def change(id: int) -> StepChange:
    return StepChange(
        id, 1, "u", None, "work", None, None, None, None, State.PENDING, None, None, datetime(2026, 1, 1, tzinfo=UTC), 0
    )


def test_a_row_that_becomes_visible_after_a_later_one_is_sent_once() -> None:
    now = [0.0]
    follower = Follower(10, 10.0, lambda: now[0])
    assert [row.id for row in follower.take([change(11), change(13)])] == [11, 13]
    assert follower.complete_to == 10
    assert [row.id for row in follower.take([change(11), change(12), change(13)])] == [12]
    now[0] = 11.0
    assert follower.take([change(11), change(12), change(13)]) == []
    assert follower.complete_to == 13
    assert follower.take([]) == []


def test_a_stream_that_is_far_behind_reads_no_more_than_a_window_again() -> None:
    follower = Follower(0, 10.0, lambda: 0.0)
    rows = [change(id) for id in range(1, WINDOW + 500)]
    assert len(follower.take(rows)) == len(rows)
    assert follower.complete_to == rows[-1].id - WINDOW


def test_a_stream_needs_a_sign_in_and_valid_parameters(app: Stepwell) -> None:
    made = web(app)
    assert client(made, None).get("/api/v1/events").status_code == 401
    assert client(made).get("/api/v1/events?after=x").status_code == 422
    made.site.stopping.set()
    assert browser(made).get("/api/v1/events").status_code == 200
