"""What stands before every route: hosts, origins, sign-in, roles, sizes, headers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from starlette.routing import BaseRoute, Mount, Route
from starlette.testclient import TestClient

from stepwell import Stepwell
from stepwell.web import Application, Role, Visitor, application
from stepwell.web.guard.bodies import MAX_BODY
from stepwell.web.guard.failures import MOST_FAILURES
from stepwell.web.guard.guard import OPEN
from tests.conformance.web.support import TOKENS, browser, client, web

pytestmark = pytest.mark.one_database

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
UUID = "01890000-0000-7000-8000-000000000000"
SAMPLES = {"id": "1", "id:int": "1", "step": "1", "workflow": UUID, "operation": "1"}
TOGGLE = "/step-dispatcher/toggle"


def paths(routes: list[BaseRoute], prefix: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every path of the route table with the methods that it takes."""
    for route in routes:
        if isinstance(route, Mount):
            yield from paths(list(route.routes or []), prefix + route.path)
        elif isinstance(route, Route):
            path = prefix + route.path
            while "{" in path:
                name = path[path.index("{") + 1 : path.index("}")]
                path = path.replace(f"{{{name}}}", SAMPLES.get(name, "x"))
            yield path, set(route.methods or ())


def all_paths(made: Application) -> list[tuple[str, set[str]]]:
    found = list(paths(made.router.routes))
    assert len(found) > 60
    return found


def test_without_a_sign_in_every_route_is_refused_but_for_those_that_are_meant_to_be_open(app: Stepwell) -> None:
    made = web(app)
    stranger = client(made, None, **{"sec-fetch-site": "same-origin"})
    for (path, _), method in product(all_paths(made), METHODS):
        if path not in OPEN:
            answer = stranger.request(method, path)
            assert answer.status_code == 401, f"{method} {path}: {answer.status_code}"
    assert {stranger.get(path).status_code for path in OPEN} == {200}


def test_without_any_way_to_recognise_visitors_everything_is_closed(app: Stepwell) -> None:
    made = application(app)
    anyone = TestClient(made, base_url="http://localhost", headers={"authorization": "Bearer "})
    assert {anyone.get(path).status_code for path, _ in all_paths(made) if path not in OPEN} == {401}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost.evil.example"},
        {"origin": "http://localhost:81"},
        {"origin": "http://evil.example", "sec-fetch-site": "same-origin"},
        {"origin": "file://localhost"},
    ],
)
def test_a_change_by_a_page_of_another_site_is_refused_on_every_route(app: Stepwell, headers: dict[str, str]) -> None:
    made = web(app)
    visitor = browser(made)
    csrf = csrf_of(visitor, made)
    visitor.headers.pop("sec-fetch-site")
    for path, methods in all_paths(made):
        for method in methods - {"GET", "HEAD"} or {"POST"}:
            answer = visitor.request(method, path, headers={**headers, "x-csrf-token": csrf})
            assert answer.status_code == 403, f"{method} {path}: {answer.status_code}"
    assert app.breaker.state().dispatching


def test_a_change_by_a_page_needs_its_cross_site_token_on_every_route(app: Stepwell) -> None:
    made = web(app)
    visitor = browser(made)
    for path, methods in all_paths(made):
        for method in methods - {"GET", "HEAD"}:
            if path == "/step-dispatcher/login":
                continue
            for token in ({}, {"x-csrf-token": "guess"}):
                answer = visitor.request(method, path, headers=token)
                assert answer.status_code == 403, f"{method} {path}: {answer.status_code}"


def csrf_of(visitor: TestClient, made: Application) -> str:
    cookie = visitor.cookies[made.site.access.cookie]
    found = made.site.access.by_cookie(cookie)
    assert found is not None
    return found.csrf


@pytest.mark.parametrize("headers", [{"sec-fetch-site": "same-origin"}, {"origin": "http://localhost"}])
def test_a_page_of_this_site_changes_something_with_its_token(app: Stepwell, headers: dict[str, str]) -> None:
    made = web(app)
    visitor = browser(made)
    visitor.headers.pop("sec-fetch-site")
    answer = visitor.post(TOGGLE, json={"enabled": False}, headers={**headers, "x-csrf-token": csrf_of(visitor, made)})
    assert answer.json() == {"enabled": False}
    assert app.breaker.state().changed_by == "operator:ann"


def test_a_form_carries_the_cross_site_token_in_a_field(app: Stepwell) -> None:
    made = web(app)
    visitor = browser(made)
    csrf = csrf_of(visitor, made)
    assert visitor.post("/step-dispatcher/logout", data={"csrf": "guess"}).status_code == 403
    assert visitor.post("/step-dispatcher/logout", data={"csrf": csrf}).status_code == 303
    assert visitor.get("/api/v1/totals").status_code == 401


def test_the_token_of_one_session_does_not_fit_another(app: Stepwell) -> None:
    made = web(app)
    ann, bob = browser(made, "ann"), browser(made, "bob")
    assert bob.post(TOGGLE, json={"enabled": False}, headers={"x-csrf-token": csrf_of(ann, made)}).status_code == 403


# Hosts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "localhost.", "", "localhost:x", "127.0.0.2"]
)
def test_a_foreign_host_name_is_refused_before_anything_else(app: Stepwell, host: str) -> None:
    made = web(app)
    for who in (client(made), client(made, None)):
        assert who.get("/health/live", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:7837", "127.0.0.1:7837", "[::1]:7837", "jobs.example"])
def test_the_names_of_this_machine_and_configured_ones_are_served(app: Stepwell, host: str) -> None:
    assert client(web(app, hosts=["jobs.example"])).get("/health/live", headers={"host": host}).status_code == 200


def test_a_forwarded_host_is_not_believed(app: Stepwell) -> None:
    headers = {"host": "evil.example", "x-forwarded-host": "localhost"}
    assert client(web(app)).get("/health/live", headers=headers).status_code == 421


# Roles --------------------------------------------------------------------------------------------------------


def test_the_role_read_changes_nothing_on_any_route(app: Stepwell) -> None:
    made = web(app)
    reader = client(made, Role.READ)
    for path, methods in all_paths(made):
        for method in methods - {"GET", "HEAD"}:
            if path not in (*OPEN, "/step-dispatcher/logout"):
                assert reader.request(method, path).status_code == 403, f"{method} {path}"
    assert reader.get("/api/v1/totals").status_code == 200


def test_a_read_only_server_changes_nothing_whoever_asks(app: Stepwell) -> None:
    made = web(app, read_only=True)
    admin = client(made)
    for path, methods in all_paths(made):
        for method in methods - {"GET", "HEAD"}:
            if path not in (*OPEN, "/step-dispatcher/logout"):
                assert admin.request(method, path).status_code == 403, f"{method} {path}"


def test_defining_schedules_needs_the_role_admin(app: Stepwell) -> None:
    @app.job()
    def report() -> None: ...

    body = {"name": "nightly", "expression": "0 1 * * *", "handler": "report"}
    made = web(app)
    refused = client(made, Role.OPERATE).post("/api/v1/schedules", json=body)
    assert (refused.status_code, refused.json()["detail"]) == (
        403,
        "ann-operate has the role operate; this needs admin",
    )
    assert client(made, Role.ADMIN).post("/api/v1/schedules", json=body).status_code == 201


def test_a_program_that_has_its_own_sign_in_says_who_its_visitors_are(app: Stepwell) -> None:
    def recognise(scope: Any) -> Visitor | None:
        names = dict(scope["headers"])
        return Visitor(names[b"x-user"].decode(), Role.OPERATE) if b"x-user" in names else None

    made = application(app, recognise=recognise)
    visitor = TestClient(made, base_url="http://localhost", headers={"sec-fetch-site": "same-origin"})
    assert visitor.get("/api/v1/totals").status_code == 401
    visitor.headers["x-user"] = "zoe"
    assert visitor.get("/api/v1/totals").status_code == 200
    assert visitor.post(TOGGLE, json={"enabled": False}).status_code == 403
    csrf = made.site.access.with_csrf(Visitor("zoe", Role.OPERATE)).csrf
    assert visitor.post(TOGGLE, json={"enabled": False}, headers={"x-csrf-token": csrf}).status_code == 200
    assert app.breaker.state().changed_by == "operator:zoe"


# Sign-in ------------------------------------------------------------------------------------------------------


def test_a_one_time_code_signs_in_once_and_gives_a_cookie_that_scripts_and_other_sites_cannot_use(
    app: Stepwell,
) -> None:
    made = web(app)
    visitor = client(made, None, **{"sec-fetch-site": "same-origin"})
    code = made.sign_in_path("ann").partition("#code=")[2]
    answer = visitor.post("/step-dispatcher/login", data={"code": code})
    cookie = answer.headers["set-cookie"]
    assert (answer.status_code, answer.headers["location"]) == (303, "/step-dispatcher/")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert code not in cookie
    assert visitor.get("/api/v1/totals").status_code == 200
    again = client(made, None, **{"sec-fetch-site": "same-origin"})
    assert again.post("/step-dispatcher/login", data={"code": code}).status_code == 401


def test_a_token_that_is_typed_in_gives_a_cookie_with_its_role(app: Stepwell) -> None:
    made = web(app)
    visitor = client(made, None, **{"sec-fetch-site": "same-origin"})
    assert visitor.post("/step-dispatcher/login", data={"token": TOKENS[Role.READ].secret}).status_code == 303
    found = made.site.access.by_cookie(visitor.cookies[made.site.access.cookie])
    assert found is not None
    assert (found.name, found.role) == ("ann-read", Role.READ)


@pytest.mark.parametrize("cookie", ["", ".", "a.b", "WyJyb290IiwzLDE3OTc1OTQ4Mjhd.", "ü.ü", "%00.%00"])
def test_a_forged_cookie_is_nobody(app: Stepwell, cookie: str) -> None:
    made = web(app)
    headers = {"cookie": f"{made.site.access.cookie}={cookie}".encode()}
    assert client(made, None).get("/api/v1/totals", headers=headers).status_code == 401  # type: ignore[arg-type]


def test_a_cookie_ends_with_the_tokens_that_it_was_made_for(app: Stepwell) -> None:
    made = web(app)
    cookie = browser(made).cookies[made.site.access.cookie]
    other = application(app, token="another-token-of-some-length")
    assert web(app).site.access.by_cookie(cookie) is not None
    assert other.site.access.by_cookie(cookie) is None


@pytest.mark.parametrize("secret", ["", "wrong", "ü", "a-token-for-the-role-admi", "a-token-for-the-role-admin\x00"])
def test_a_wrong_token_is_refused_whatever_it_consists_of(app: Stepwell, secret: str) -> None:
    headers = {"authorization": f"Bearer {secret}".encode()}
    assert client(web(app), None).get("/api/v1/totals", headers=headers).status_code == 401  # type: ignore[arg-type]


def test_whoever_guesses_too_often_is_told_so_and_locks_out_nobody(app: Stepwell) -> None:
    made = web(app)
    guesses = [
        client(made, None).get("/api/v1/totals", headers={"authorization": f"Bearer {number}"}).status_code
        for number in range(MOST_FAILURES + 1)
    ]
    assert (guesses[0], guesses[-1]) == (401, 429)
    assert client(made).get("/api/v1/totals").status_code == 200


def test_no_token_and_no_code_appears_in_the_log(app: Stepwell, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    made = web(app)
    code = made.sign_in_path("ann").partition("#code=")[2]
    client(made, None, **{"sec-fetch-site": "same-origin"}).post("/step-dispatcher/login", data={"code": code})
    client(made).get("/api/v1/totals")
    client(made, None).get("/api/v1/totals", headers={"authorization": "Bearer s3cret-guess"})
    assert not any(secret in caplog.text for secret in (code, TOKENS[Role.ADMIN].secret, "s3cret-guess"))


# Sizes, headers, errors ---------------------------------------------------------------------------------------


def test_a_large_body_is_refused_whether_it_says_so_or_not(app: Stepwell) -> None:
    program = client(web(app))
    body = b" " * (MAX_BODY + 1)
    assert program.post("/api/v1/steps", content=body).status_code == 413
    assert program.post("/api/v1/steps", content=iter([body[:1000], body])).status_code == 413
    assert program.get(f"/api/v1/steps?action={'a' * 9000}").status_code == 414


def test_every_response_forbids_inline_scripts_foreign_content_and_frames(app: Stepwell) -> None:
    made = web(app)
    answers = [
        client(made).get("/api/v1/totals"),
        client(made, None).get("/api/v1/totals"),
        client(made).get("/nothing"),
    ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-request-id"]


def test_an_unexpected_error_shows_a_request_id_and_its_cause_is_in_the_log(
    app: Stepwell, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise KeyError("secret detail")

    monkeypatch.setattr(app.figures, "totals", fail)
    answer = client(web(app)).get("/api/v1/totals")
    assert answer.status_code == 500
    assert "secret detail" not in answer.text
    assert answer.json()["request_id"] in caplog.text
    assert "secret detail" in caplog.text


def test_a_page_that_needs_a_sign_in_is_a_page(app: Stepwell) -> None:
    answer = client(web(app), None).get("/step-dispatcher/", headers={"accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert "<script src=" in answer.text
    assert "<script>" not in answer.text
