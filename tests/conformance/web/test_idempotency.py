"""`Idempotency-Key`: whatever dies, and however often a request is sent, it acts once and has one answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from stepwell import ActionRefused, Stepwell
from stepwell.model.errors import DatabaseUnavailable
from stepwell.testing import ManualClock
from stepwell.web import Role
from tests.conformance.web import actions
from tests.conformance.web.actions import API, Action, contents
from tests.conformance.web.support import Death, client, web
from tests.conformance.web.test_audit_trail import EXECUTING, each, recorded, send

ACTIONS = [(API, *route, action) for route, several in actions.API_ACTIONS.items() for action in several]
KEY = {"idempotency-key": "once"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 3, 0, 0, 30, tzinfo=UTC))


@pytest.fixture
def shop(app: Stepwell) -> Stepwell:
    actions.jobs_of(app)
    app.record_jobs()
    return app


@each([each for each in ACTIONS if not each[2].endswith(EXECUTING)])
def test_a_request_that_dies_anywhere_is_repeated_until_it_is_done_once(
    shop: Stepwell, base: str, method: str, path: str, action: Action
) -> None:
    made = web(shop)
    sent = action.prepare(shop)
    before, count = contents(shop), len(recorded(shop))
    for moment in ("before", "after"):
        for number in range(1, 20):
            with Death(shop, number, moment) as death:
                answer = send(client(made, Role.ADMIN, **KEY), base, method, path, sent)
            if not death.has_come:
                break
            assert answer.status_code == 500
    assert answer.status_code in (200, 201), answer.text
    again = send(client(made, Role.ADMIN, **KEY), base, method, path, sent)
    made.site.operations.wait()
    assert (again.status_code, again.json()) == (answer.status_code, answer.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert [row.kind for row in recorded(shop)[: -count or None]] == [action.kind]
    assert contents(shop) != before


def test_many_that_send_the_same_request_at_once_all_get_the_answer_of_the_one_that_acts(
    shared_database_url: str,
) -> None:
    apps = [Stepwell(shared_database_url, name="shop") for _ in range(4)]
    for app in apps:
        app.job(work)
    programs = [client(web(app), Role.ADMIN, **KEY) for app in apps]
    start = threading.Barrier(8)

    def post(number: int) -> Any:
        start.wait()
        return programs[number % 4].post(f"{API}/steps", json={"action": "work"})

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(post, range(8)))
    assert {(answer.status_code, answer.text) for answer in answers} == {(201, answers[0].text)}
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert (len(apps[0].steps()), [row.kind for row in recorded(apps[0])]) == (1, ["enqueue"])
    for app in apps:
        app.close()


def work() -> None: ...


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    "change",
    [
        lambda program: program.delete(f"{API}/schedules/nightly?why=x"),
        lambda program: program.delete(f"{API}/schedules/nightly?force=true&why=because"),
        lambda program: program.patch(f"{API}/schedules/nightly", json={"jitter": 1}),
        lambda program: program.post(f"{API}/schedules/nightly/disable", json={}),
    ],
)
@pytest.mark.one_database
def test_a_key_belongs_to_one_address_with_its_query_method_and_body(
    shop: Stepwell, change: Callable[[Any], Any]
) -> None:
    program = client(web(shop), Role.ADMIN, **KEY)
    shop.schedules.create("nightly", "0 2 * * *", "work", who="ann")
    assert program.patch(f"{API}/schedules/nightly?preview=true", json={"jitter": 1}).status_code == 200
    answer = change(program)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert "another request" in answer.json()["detail"]
    assert shop.schedules.get("nightly").definition.jitter == 0
    assert len(recorded(shop)) == 1


@pytest.mark.one_database
def test_a_key_is_the_same_under_every_name_of_the_host(
    shop: Stepwell,
) -> None:
    program = client(web(shop), Role.ADMIN, **KEY)
    first = program.post(f"{API}/steps", json={"action": "work"})
    other = program.post(f"{API}/steps", json={"action": "work"}, headers={"host": "127.0.0.1:7837"})
    assert other.json() == first.json()


def test_what_a_refused_request_had_written_is_undone(shop: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    program = client(web(shop), Role.ADMIN, **KEY)
    with monkeypatch.context() as patch:
        patch.setattr(shop.reader, "step", lambda *_: _raise(ActionRefused("it is gone")))
        refused = program.post(f"{API}/steps", json={"action": "work"})
    assert refused.status_code == 409
    assert (shop.steps(), recorded(shop)) == ([], [])
    again = program.post(f"{API}/steps", json={"action": "work"})
    assert (again.status_code, again.headers["idempotency-replayed"], shop.steps()) == (409, "true", [])


def test_an_outage_in_the_middle_undoes_everything_and_is_no_answer(
    shop: Stepwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise DatabaseUnavailable("the database is away")

    program = client(web(shop), Role.ADMIN, **KEY)
    with monkeypatch.context() as patch:
        patch.setattr(shop.reader, "step", away)
        failed = program.post(f"{API}/steps", json={"action": "work"})
    assert (failed.status_code, shop.steps(), recorded(shop)) == (503, [], [])
    assert program.post(f"{API}/steps", json={"action": "work"}).status_code == 201
    assert len(shop.steps()) == 1


def test_a_database_that_does_not_take_the_key_is_an_outage_too(
    shop: Stepwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise DatabaseUnavailable("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(shop.database, "together", away)
        answer = client(web(shop), Role.ADMIN, **KEY).post(f"{API}/steps", json={"action": "work"})
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")


def test_a_preview_that_is_taken_twice_has_one_answer(shop: Stepwell) -> None:
    program = client(web(shop), Role.ADMIN, **KEY)
    shop.enqueue("work", delay=60)
    body = {"kind": "cancel", "filters": {"action": "work"}}
    for number in (1, 2, 3):
        with Death(shop, number):
            assert program.post(f"{API}/operations", json=body).status_code == 500
    first, second = (program.post(f"{API}/operations", json=body) for _ in range(2))
    assert (first.status_code, second.status_code, second.json()) == (201, 201, first.json())
    assert second.headers["idempotency-replayed"] == "true"


@pytest.mark.one_database
@pytest.mark.parametrize("key", ["", " ", "a b", "ü", "a" * 256, "a\tb"])
def test_a_key_that_cannot_be_one_is_refused(shop: Stepwell, key: str) -> None:
    headers: Any = {"idempotency-key": key.encode()}
    answer = client(web(shop)).post(f"{API}/steps", json={"action": "work"}, headers=headers)
    assert (answer.status_code, shop.steps()) == (422, [])
