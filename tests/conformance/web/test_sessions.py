"""Signing out ends the session on the server: its cookie is worth nothing from then on, in any process."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient

from stepwell import Stepwell
from stepwell.model.errors import DatabaseUnavailable
from stepwell.web import Application, Role, Token, Visitor, application
from stepwell.web import sessions as web_sessions
from stepwell.web.guard.access import SESSION_SECONDS
from tests.conformance.web.support import TOKENS, browser, client, web
from tests.conformance.web.test_guard import all_paths, csrf_of

LOGOUT = "/step-dispatcher/logout"
TOTALS = "/api/v1/totals"


def sign_out(visitor: TestClient, made: Application) -> None:
    answer = visitor.post(LOGOUT, data={"csrf": csrf_of(visitor, made)})
    assert (answer.status_code, answer.headers["location"]) == (303, "/step-dispatcher/login")


def with_cookie(made: Application, cookie: str) -> TestClient:
    """Somebody who has copied a cookie."""
    copied = client(made, None, **{"sec-fetch-site": "same-origin"})
    copied.cookies.set(made.site.access.cookie, cookie)
    return copied


def test_after_signing_out_the_cookie_opens_nothing_on_any_route(app: Stepwell) -> None:
    made = web(app)
    visitor = browser(made)
    cookie, csrf = visitor.cookies[made.site.access.cookie], csrf_of(visitor, made)
    thief = with_cookie(made, cookie)
    assert thief.get(TOTALS).status_code == 200
    sign_out(visitor, made)
    assert made.site.access.cookie not in visitor.cookies
    for path, methods in all_paths(made):
        if not path.startswith(("/health/live", "/health/ready", "/step-dispatcher/login", "/step-dispatcher/static")):
            for method in methods:
                answer = thief.request(method, path, headers={"x-csrf-token": csrf})
                assert answer.status_code == 401, f"{method} {path}: {answer.status_code}"


@pytest.mark.parametrize("headers", [{}, {"x-stepwell-fragment": "1"}])
@pytest.mark.one_database
def test_a_page_that_a_browser_has_kept_is_sent_again_after_another_sign_in(
    app: Stepwell, headers: dict[str, str]
) -> None:
    """A browser may send the tag of what it has kept although `Vary` does not match: then 304 would be wrong."""
    made = web(app)
    before, after = browser(made), browser(made)
    kept = before.get("/step-dispatcher/deploy", headers=headers)
    asked = {**headers, "if-none-match": kept.headers["etag"]}
    assert before.get("/step-dispatcher/deploy", headers=asked).status_code == 304
    again = after.get("/step-dispatcher/deploy", headers=asked)
    assert again.status_code == 200
    assert csrf_of(after, made) in again.text
    assert csrf_of(before, made) not in again.text


def test_signing_out_ends_one_session_and_no_other(app: Stepwell) -> None:
    made = web(app)
    here, elsewhere = browser(made, "ann"), browser(made, "ann")
    sign_out(here, made)
    assert elsewhere.get(TOTALS).status_code == 200
    again = browser(made, "ann")
    assert again.get(TOTALS).status_code == 200


def test_every_process_with_the_same_tokens_notices_it(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_sessions, "CHECKED_SECONDS", 0.0)
    one, other = web(app), web(app)
    visitor = browser(one)
    thief = with_cookie(other, visitor.cookies[one.site.access.cookie])
    assert thief.get(TOTALS).status_code == 200
    sign_out(visitor, one)
    assert thief.get(TOTALS).status_code == 401
    assert (
        with_cookie(web(app), thief.cookies[one.site.access.cookie]).get(TOTALS).status_code == 401
    )  # after a restart


def test_the_database_knows_no_session_by_its_cookie_and_forgets_those_that_are_over(
    app: Stepwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = web(app)
    visitor = browser(made)
    cookie = visitor.cookies[made.site.access.cookie]
    found = made.site.access.by_cookie(cookie)
    assert found is not None
    assert len(found.session) >= 20
    sign_out(visitor, made)
    rows = app.database.read(lambda tx: tx.fetch("SELECT * FROM steps_ended_sessions", {}))
    assert len(rows) == 1
    assert found.session not in repr(rows)
    assert cookie not in repr(rows)
    later = datetime.now(UTC) + timedelta(seconds=SESSION_SECONDS) + timedelta(days=2)

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> Later:
            return cls.fromtimestamp(later.timestamp(), UTC)

    monkeypatch.setattr(web_sessions, "datetime", Later)
    sign_out(other := browser(made), made)
    assert other.get(TOTALS).status_code == 401
    assert len(app.database.read(lambda tx: tx.fetch("SELECT * FROM steps_ended_sessions", {}))) == 1


@pytest.mark.one_database
def test_a_session_is_over_after_its_time_and_with_its_tokens(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    made = web(app)
    visitor = browser(made)
    assert visitor.get(TOTALS).status_code == 200
    changed = application(app, tokens=[*list(TOKENS.values())[:2], Token("another-token-for-admins", "ann-admin")])
    assert with_cookie(changed, visitor.cookies[made.site.access.cookie]).get(TOTALS).status_code == 401
    now = time.time()
    monkeypatch.setattr("stepwell.web.guard.access.time.time", lambda: now + SESSION_SECONDS + 1)
    assert visitor.get(TOTALS).status_code == 401


@pytest.mark.one_database
def test_a_cookie_that_is_signed_but_of_another_form_opens_no_session(app: Stepwell) -> None:
    access = web(app).site.access
    for body in ("WyJhbm4iLDMsMTc5NzU5NDgyOF0", "e30", "bm90IGpzb24", "WyJhIiwiYiIsOSwxXQ"):
        assert access.by_cookie(f"{body}.{access._sign('cookie', body)}") is None


@pytest.mark.one_database
def test_while_the_database_does_not_answer_no_session_counts_as_open_or_ended(
    app: Stepwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise DatabaseUnavailable("the database is away")

    made = web(app)
    visitor = browser(made)
    with monkeypatch.context() as patch:
        patch.setattr(app.database, "read", away)
        program = visitor.get(TOTALS)
        page = visitor.get("/step-dispatcher/", headers={"accept": "text/html"})
        assert visitor.get("/health/live").status_code == 200
    assert (program.status_code, program.headers["content-type"]) == (503, "application/problem+json")
    assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert "The database is away." in page.text
    assert visitor.get(TOTALS).status_code == 200


@pytest.mark.one_database
def test_a_page_offers_to_sign_out_only_to_whoever_has_a_session(app: Stepwell) -> None:
    made = web(app)
    visitor = browser(made)
    page = visitor.get("/step-dispatcher/").text
    assert 'action="/step-dispatcher/logout"' in page
    assert csrf_of(visitor, made) in page
    assert "/logout" not in client(made).get("/step-dispatcher/").text
    mounted = application(app, recognise=lambda scope: Visitor("zoe", Role.OPERATE))
    own = TestClient(mounted, base_url="http://localhost", headers={"sec-fetch-site": "same-origin"})
    assert "/logout" not in own.get("/step-dispatcher/").text
    csrf = mounted.site.access.with_csrf(Visitor("zoe", Role.OPERATE)).csrf
    assert own.post(LOGOUT, data={"csrf": csrf}, follow_redirects=False).status_code == 303


@pytest.mark.one_database
def test_whoever_may_only_read_and_a_read_only_server_can_sign_out(app: Stepwell) -> None:
    made = web(app, read_only=True)
    visitor = client(made, None, **{"sec-fetch-site": "same-origin"})
    visitor.post("/step-dispatcher/login", data={"token": TOKENS[Role.READ].secret})
    cookie = visitor.cookies[made.site.access.cookie]
    sign_out(visitor, made)
    assert with_cookie(made, cookie).get(TOTALS).status_code == 401


def test_signing_in_leads_to_the_address_that_was_asked_for(app: Stepwell) -> None:
    made = web(app)
    visitor = client(made, None, **{"sec-fetch-site": "same-origin", "accept": "text/html"})
    page = visitor.get("/step-dispatcher/steps?state=Failed&relatable=order:4")
    assert page.status_code == 401
    assert 'name="next" value="/steps?state=Failed&amp;relatable=order:4"' in page.text
    token = TOKENS[Role.READ].secret
    for wanted, led in {
        "/steps?state=Failed&relatable=order:4": "/steps?state=Failed&relatable=order%3A4",
        "//evil.example/": "/",
        "/\\evil.example": "/",
        "https://evil.example/": "/",
        "/../api/v1/steps": "/",
        "": "/",
    }.items():
        answer = visitor.post("/step-dispatcher/login", data={"token": token, "next": wanted})
        assert answer.headers["location"] == f"/step-dispatcher{led}", wanted


def test_resuming_leads_back_to_the_page_with_its_filters(app: Stepwell) -> None:
    app.breaker.pause("ann")
    page = browser(made := web(app))
    shown = page.get("/step-dispatcher/steps?state=Failed").text
    assert 'name="next" value="/steps?state=Failed"' in shown
    form = {"csrf": csrf_of(page, made), "next": "/steps?state=Failed"}
    answer = page.post("/step-dispatcher/breaker/resume", data=form)
    assert answer.headers["location"] == "/step-dispatcher/steps?state=Failed"
