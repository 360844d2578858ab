"""Every action leaves exactly one row of the audit trail, in its own transaction; what changes nothing leaves none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from stepwell import Stepwell
from stepwell.store.engine.operations import OperationRow
from stepwell.testing import ManualClock
from tests.conformance.web import actions
from tests.conformance.web.actions import API, DASHBOARD, WHY, Action, Sent, contents
from tests.conformance.web.support import Death, client, web

ACTIONS = [
    (base, method, path, action)
    for base, table in ((API, actions.API_ACTIONS), (DASHBOARD, actions.DASHBOARD_ACTIONS))
    for (method, path), several in table.items()
    for action in several
]


def each(wanted: list[tuple[str, str, str, Action]]) -> pytest.MarkDecorator:
    ids = [f"{base}{path}-{action.kind}" for base, _, path, action in wanted]
    return pytest.mark.parametrize(("base", "method", "path", "action"), wanted, ids=ids)


# What they change is the operation itself, batch after batch.
EXECUTING = ("start", "execute", "undo")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 3, 0, 0, 30, tzinfo=UTC))


@pytest.fixture
def shop(app: Stepwell) -> Stepwell:
    actions.jobs_of(app)
    app.record_jobs()
    return app


def send(program: TestClient, base: str, method: str, path: str, sent: Sent) -> Any:
    address = base + path.format(**sent.path) + sent.query
    is_form = base == DASHBOARD and path != "/toggle"
    body: dict[str, Any] = {"data": sent.body} if is_form else {"json": sent.body} if method != "DELETE" else {}
    return program.request(method, address, **body)


def recorded(app: Stepwell) -> list[OperationRow]:
    return app.operations.newest(limit=1_000)


def unsafe(routes: list[Any], base: str) -> Iterator[tuple[str, str]]:
    for route in routes:
        if isinstance(route, Mount) and route.path == base:
            yield from unsafe(list(route.routes), "")
        elif isinstance(route, Route) and not base:
            yield from ((method, route.path) for method in route.methods or () if method not in ("GET", "HEAD"))


@pytest.mark.one_database
def test_every_unsafe_route_is_tried(app: Stepwell) -> None:
    routes = list(web(app).router.routes)
    assert set(unsafe(routes, API)) == set(actions.API_ACTIONS) | actions.API_WITHOUT_ROW
    assert set(unsafe(routes, DASHBOARD)) == set(actions.DASHBOARD_ACTIONS) | actions.DASHBOARD_WITHOUT_ROW
    everywhere = {route.path for route in routes if isinstance(route, Route | Mount)}
    assert everywhere == {"/", "/health", "/metrics", API, DASHBOARD}


@each(ACTIONS)
def test_an_action_leaves_exactly_one_row_with_who_why_and_what(
    shop: Stepwell, base: str, method: str, path: str, action: Action
) -> None:
    made = web(shop)
    program = client(made)
    sent = action.prepare(shop)
    before, were = contents(shop), {row.id for row in recorded(shop) if row.actor == "operator:ann-admin"}
    answer = send(program, base, method, path, sent)
    assert answer.status_code in (200, 201, 303), answer.text
    made.site.operations.wait()
    assert contents(shop) != before
    rows = [row for row in recorded(shop) if row.actor == "operator:ann-admin" and row.id not in were]
    assert [(row.kind, row.reason) for row in rows] == [(action.kind, WHY)]
    assert rows[0].parameters or shop.operations.get(rows[0].id).items() or action.kind in ("pause", "resume")

    after, count = contents(shop), len(recorded(shop))
    again = send(program, base, method, path, sent)
    made.site.operations.wait()
    if action.is_repeatable:
        assert again.status_code in (200, 201, 303), again.text
        assert (contents(shop) != after) == (len(recorded(shop)) > count)
    if again.status_code >= 400 or action.is_repeatable:
        assert (contents(shop), len(recorded(shop))) == (after, count)
    else:
        assert len(recorded(shop)) == count + 1


@each([each for each in ACTIONS if not each[2].endswith(EXECUTING)])
def test_whatever_dies_there_are_both_the_change_and_its_row_or_neither(
    shop: Stepwell, base: str, method: str, path: str, action: Action
) -> None:
    """It dies before its first commit, then, if nothing is changed yet, before its second, and so on."""
    made = web(shop)
    sent, number, changed = action.prepare(shop), 0, False
    before, count = contents(shop), len(recorded(shop))
    while not changed:
        number += 1
        with Death(shop, number) as death:
            answer = send(client(made), base, method, path, sent)
        assert answer.status_code in ((500,) if death.has_come else (200, 201, 303)), answer.text
        changed = contents(shop) != before
        assert len(recorded(shop)) - count == changed, f"crash before commit {number}: changed: {changed}"
    assert number > 1
