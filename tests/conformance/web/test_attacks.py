"""What outsiders try: every answer to bad input says what happened, as a problem or as a page, and nothing is lost."""

from __future__ import annotations

import json
from typing import Any

import fastapi
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from stepwell import Stepwell
from stepwell.model.errors import DatabaseUnavailable
from stepwell.web import Application, Role
from tests.conformance.web import actions
from tests.conformance.web.actions import API, DASHBOARD
from tests.conformance.web.support import TOKENS, browser, client, web
from tests.conformance.web.test_guard import all_paths, csrf_of

PAGE = {"accept": "text/html"}
PROBLEM = "application/problem+json"
HTML = "text/html; charset=utf-8"
FORM = "application/x-www-form-urlencoded"
STRANGE = ("OPTIONS", "TRACE", "PUT", "BREW", "PROPFIND")


@pytest.fixture
def shop(app: Stepwell) -> Stepwell:
    actions.jobs_of(app)

    @app.job()
    def secretive(password: str = "", day: str = "", url: str = "") -> None: ...

    app.record_jobs()
    params = {"password": "s3cret", "day": "today", "url": "postgresql://ann:hunter2@db/jobs"}
    app.schedules.create("nightly", "0 2 * * *", "secretive", params, who="before")
    app.enqueue("secretive", params)
    return app


def says_what_happened(answer: Any, status: int | None = None) -> None:
    """A problem with a detail, or a page with a sentence."""
    kind = answer.headers.get("content-type")
    assert 400 <= answer.status_code < 500, f"{answer.status_code} {answer.text[:300]}"
    assert status is None or answer.status_code == status, f"{answer.status_code} {answer.text[:300]}"
    if kind == PROBLEM:
        assert answer.json()["detail"]
    else:
        assert kind == HTML, kind
        assert "<h1>" in answer.text
        assert "Traceback" not in answer.text


# Addresses and methods --------------------------------------------------------------------------------------------


@pytest.mark.one_database
def test_a_method_that_an_address_does_not_take_is_a_problem_that_names_those_it_takes(shop: Stepwell) -> None:
    made = web(shop)
    admin = client(made)
    for path, _ in all_paths(made):
        for method in STRANGE:
            answer = admin.request(method, path)
            assert (answer.status_code, answer.headers["content-type"]) == (405, PROBLEM), f"{method} {path}"
            assert answer.headers["allow"]


@pytest.mark.one_database
def test_head_is_answered_like_get_without_a_body_and_ends(shop: Stepwell) -> None:
    made = web(shop)
    admin = client(made)
    for path, methods in all_paths(made):
        if "HEAD" in methods:
            head = admin.head(path)
            assert head.content == b"", path
            if not path.endswith("/events"):
                assert head.status_code == admin.get(path).status_code, path


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("path", "to"),
    [
        (f"{API}/steps/?limit=2&state=Failed", f"{API}/steps?limit=2&state=Failed"),
        (f"{DASHBOARD}/steps/", f"{DASHBOARD}/steps"),
        (f"{DASHBOARD}/steps///", f"{DASHBOARD}/steps"),
        ("/health/live/", "/health/live"),
        (DASHBOARD, f"{DASHBOARD}/"),
        (f"{DASHBOARD}/a%0d%0ab/", f"{DASHBOARD}/a%0D%0Ab"),
    ],
)
def test_a_slash_at_the_end_leads_to_the_address_without_it_on_whatever_scheme_and_host(
    shop: Stepwell, path: str, to: str
) -> None:
    answer = client(web(shop)).get(path)
    assert (answer.status_code, answer.headers["location"]) == (307, to)


@pytest.mark.one_database
@pytest.mark.parametrize(
    "path", [f"{API}/", "//evil.example/", "//evil.example", f"{API}//steps", "/health/", f"{API}/..", "/evil.example/"]
)
def test_what_leads_nowhere_is_not_found_and_redirects_to_no_other_host(shop: Stepwell, path: str) -> None:
    answer = client(web(shop)).get(f"http://localhost{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (404, PROBLEM)


@pytest.mark.one_database
def test_a_change_at_an_address_with_a_slash_at_its_end_is_not_repeated_elsewhere(shop: Stepwell) -> None:
    answer = client(web(shop)).post(f"{API}/steps/", json={"action": "work"})
    says_what_happened(answer, 404)
    assert "without the slash" in answer.json()["help"]
    assert len(shop.steps()) == 1


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/steps/1/retry", 405),
        ("GET", "/static/x/..%2f..%2fsite.py", 404),
        ("GET", "/static/x/base.css", 404),
        ("GET", "/workflows/x", 404),
        ("GET", "/schedules/99", 404),
        ("GET", "/steps?state=%00", 400),
        ("POST", "/steps/999/retry", 404),
        ("POST", "/workflows/x/pause", 400),
        ("POST", "/schedules/99/do/run", 404),
        ("POST", "/operations/99/execute", 404),
    ],
)
def test_whoever_asks_for_a_page_gets_a_page(shop: Stepwell, method: str, path: str, status: int) -> None:
    answer = client(web(shop)).request(method, DASHBOARD + path, headers=PAGE)
    says_what_happened(answer, status)
    assert answer.headers["content-type"] == HTML


def in_starlette(made: Application) -> Any:
    return Starlette(routes=[Mount("/jobs", made)])


def in_fastapi(made: Application) -> Any:
    outer = fastapi.FastAPI()
    outer.mount("/jobs", made)
    return outer


@pytest.mark.one_database
@pytest.mark.parametrize("mounted", [in_starlette, in_fastapi])
def test_all_of_this_holds_under_a_prefix(shop: Stepwell, mounted: Any) -> None:
    program = TestClient(mounted(web(shop)), base_url="http://localhost", follow_redirects=False)
    program.headers["authorization"] = f"Bearer {TOKENS[Role.ADMIN].secret}"
    assert program.get("/jobs/step-dispatcher/steps/?state=Failed").headers["location"] == (
        "/jobs/step-dispatcher/steps?state=Failed"
    )
    assert program.get("/jobs/step-dispatcher").headers["location"] == "/jobs/step-dispatcher/"
    page = program.get("/jobs/step-dispatcher/nothing", headers=PAGE)
    says_what_happened(page, 404)
    assert 'href="/jobs/step-dispatcher/"' in page.text
    says_what_happened(program.put("/jobs/api/v1/steps"), 405)
    says_what_happened(program.post("/jobs/api/v1/steps", content=b"{", headers={"content-type": "application/json"}))
    refused = program.post("/jobs/step-dispatcher/schedules/new", data={"name": "x"}, headers=PAGE)
    says_what_happened(refused, 400)
    assert 'href="/jobs/step-dispatcher/' in refused.text
    to = program.post("/jobs/step-dispatcher/steps/1/retry", headers=PAGE)
    assert to.status_code in (303, 409)


# Bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.one_database
@pytest.mark.parametrize("path", ["/steps/1/retry", "/schedules/new", "/operations/preview", "/schedules/1/edit"])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/plain", b"a&" * 30_000),
        ("text/plain", b"why=x"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\n--x--"),
        ("application/json", b"{}"),
        ("", b"why=x"),
        (FORM, b"&".join([b"a=1"] * 20_001)),
        (FORM, b"\xff\xfe"),
        (FORM, b"%"),
        (FORM, b"why=%00"),
        (FORM, b"a" * 1_200_000),
    ],
)
def test_a_form_that_is_none_is_refused(shop: Stepwell, path: str, kind: str, body: bytes) -> None:
    answer = client(web(shop)).post(DASHBOARD + path, content=body, headers={**PAGE, "content-type": kind})
    says_what_happened(answer)
    assert [row.kind for row in shop.operations.newest()] == ["create_schedule"]


@pytest.mark.one_database
def test_every_row_of_a_long_list_can_be_ticked(shop: Stepwell) -> None:
    ids = [step.id for step in shop.steps()] * 3_000
    answer = client(web(shop)).post(f"{DASHBOARD}/operations/preview", data={"do": "cancel", "id": ids})
    assert answer.status_code == 303


@pytest.mark.one_database
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 900_000,
        b'{"a":' * 100_000,
        b'{"action": "work", "arguments": {"fails": 1e999}}',
        b'{"action": "work", "arguments": {"fails": NaN}}',
        b'{"action": "work", "arguments": {"fails": ' + b"1" * 5_000 + b"}}",
        b'{"action": "work", "arguments": {"\\ud800": 1}}',
        b'{"action": "work", "delay": 1e308}',
        b'{"action": "work", "label": "\\u001b[31m"}',
        b'{"action": "work", "label": "a\\nb"}',
        b'{"action": "work", "parent": "ffffffff"}',
        b'{"action": "work", "dispatch_after": "9999-12-31T23:59:59Z"}',
        b'{"action": "__import__(\'os\').system"}',
        b'{"action": "os.system"}',
        b"\xef\xbb\xbf{}",
        b"null",
    ],
)
def test_a_hostile_body_creates_nothing(shop: Stepwell, body: bytes) -> None:
    answer = client(web(shop)).post(f"{API}/steps", content=body, headers={"content-type": "application/json"})
    says_what_happened(answer)
    assert len(shop.steps()) == 1


@pytest.mark.parametrize(
    "filters",
    [
        {"id": ["x"]},
        {"id": [1e30]},
        {"id": [2**63]},
        {"id": [-1]},
        {"id": {"x": 1}},
        {"ended_after": "x"},
        {"ended_after": 5},
        {"ended_before": "0001-01-01T00:00:00+23:00"},
        {"throttled": "x"},
        {"throttled": 1},
        {"relatable": 5},
        {"relatable": ["a"]},
        {"relatable": "a"},
        {"action": {"x": 1}},
        {"action": [1]},
        {"action": "a\x00b"},
        {"parent": "1"},
        {"cause": "x"},
        {"host": 5},
        {"type": "x"},
        {"workflow": "x"},
        {"block": "x"},
        {"state": 7},
        {"status": {}},
        {"args": "password=x"},
        {"args": [["password", "x"]]},
        {"args": {"nested": {"password": "x"}}},
        {"args": {"nested": '{"apiKey":"x"}'}},
        {"args": {"a\\b": "x"}},
        {"limit": 1},
        {"state": "Failed; DROP TABLE steps"},
    ],
)
def test_a_filter_of_another_type_is_refused_before_it_reaches_the_database(shop: Stepwell, filters: Any) -> None:
    answer = client(web(shop)).post(
        f"{API}/operations", content=json.dumps({"kind": "cancel", "filters": filters}), headers=_JSON
    )
    says_what_happened(answer, 422)


_JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("filters", [{"id": ["x"]}, {"id": [1]}, {"state": "x"}, {"paused": "x"}, {"name": 5}])
def test_the_same_holds_for_filters_of_workflows(shop: Stepwell, filters: Any) -> None:
    program = client(web(shop))
    says_what_happened(program.post(f"{API}/operations", json={"kind": "pause_workflow", "filters": filters}), 422)
    form = {"do": "pause_workflow", "workflow": "x"}
    says_what_happened(program.post(f"{DASHBOARD}/operations/preview", data=form, headers=PAGE), 400)


def test_filters_of_the_right_types_still_work(shop: Stepwell) -> None:
    program = client(web(shop))
    step = shop.enqueue("work", delay=60, relatable=("order", "7:1"))
    for filters in (
        {"id": step.id},
        {"id": [step.id], "state": "Pending"},
        {"state": ["Pending", "Failed"], "action": ["work", "other"]},
        {"relatable": "order:7:1"},
        {"relatable": ["order", "7:1"]},
        {"status": "delayed", "throttled": False, "workflow": shop.step(step).workflow_id, "queue": None},
    ):
        answer = program.post(f"{API}/operations", json={"kind": "cancel", "filters": filters})
        assert (answer.status_code, answer.json()["counts"]["targets"]) == (201, 1), f"{filters}: {answer.text}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_retry", "9" * 30),
        ("max_retry", str(2**31)),
        ("timeout_seconds", str(2**31)),
        ("misfire_limit", "9" * 19),
        ("jitter", "1e400"),
        ("jitter", "1e300"),
        ("expect_within", "-1"),
        ("misfire", "x"),
        ("target", "x"),
        ("tz", "../../etc/passwd"),
        ("params", "[" * 5_000),
        ("params", '{"password": "[redacted]"}'),
        ("expression", "* * * * * *"),
        ("handler", "os.system"),
        ("name", "x" * 256),
    ],
)
def test_a_form_of_a_schedule_with_an_impossible_value_creates_nothing(shop: Stepwell, name: str, value: str) -> None:
    form = {"name": "new", "expression": "0 3 * * *", "handler": "secretive", name: value}
    says_what_happened(client(web(shop)).post(f"{DASHBOARD}/schedules/new", data=form, headers=PAGE), 400)
    assert [each.name for each in shop.schedules.list()] == ["nightly"]


# Secrets ----------------------------------------------------------------------------------------------------------


def stored(shop: Stepwell) -> Any:
    return shop.schedules.get("nightly").definition.params


def test_saving_what_a_form_shows_does_not_overwrite_the_secrets_that_it_hides(shop: Stepwell) -> None:
    made = web(shop)
    admin, before = client(made), stored(shop)
    page = admin.get(f"{DASHBOARD}/schedules/1/edit").text
    text = page.split('name="params"')[1].split(">", 1)[1].split("</textarea>")[0]
    params = json.loads(text.replace("&#34;", '"'))
    assert params["password"] == "[redacted]"
    assert "hunter2" not in text
    form = {"params": json.dumps({**params, "day": "tomorrow"}), "description": "changed"}
    assert admin.post(f"{DASHBOARD}/schedules/1/edit", data=form).status_code == 303
    assert stored(shop) == {**before, "day": "tomorrow"}
    form = {"params": json.dumps({**params, "password": "new"})}
    assert admin.post(f"{DASHBOARD}/schedules/1/edit", data=form).status_code == 303
    assert stored(shop) == {**before, "password": "new"}


def test_sending_back_what_the_api_shows_does_not_overwrite_the_secrets_that_it_hides(shop: Stepwell) -> None:
    program, before = client(web(shop)), stored(shop)
    shown = program.get(f"{API}/schedules/nightly").json()["definition"]["params"]
    assert shown["password"] == "[redacted]"
    assert program.patch(f"{API}/schedules/nightly", json={"params": shown}).json()["changed"] == []
    assert stored(shop) == before


def test_a_hidden_value_is_not_taken_for_a_real_one(shop: Stepwell) -> None:
    program, hidden = client(web(shop)), {"password": "[redacted]"}
    nested = {"login": {"accounts": [{"api_key": "[redacted]"}]}}
    answers = [
        program.post(f"{API}/steps", json={"action": "secretive", "arguments": hidden}),
        program.post(f"{API}/workflows", json={"name": "order", "context": nested}),
        program.post(f"{API}/schedules", json={"name": "n", "expression": "0 1 * * *", "handler": "secretive",
                                               "params": hidden}),
        program.patch(f"{API}/schedules/nightly", json={"params": {"other_token": "[redacted]"}}),
    ]  # fmt: skip
    for answer in answers:
        says_what_happened(answer, 422)
        assert "send the real value" in answer.json()["detail"]
    assert (len(shop.steps()), stored(shop)["password"]) == (1, "s3cret")


@pytest.mark.parametrize(
    "name", ["password", "passw\\u006frd", 'x"."password', "PASSWORD", "a.password", "password.x", '"password"']
)  # fmt: skip
def test_no_spelling_of_a_secret_finds_it_out(shop: Stepwell, name: str) -> None:
    """SQLite from 3.45 on reads escapes in the names of a JSON path."""
    operator = client(web(shop), Role.OPERATE)
    for guess in ("s3cret", "another"):
        for answer in (
            operator.get(f"{API}/steps", params={"args": f"{name}={guess}"}),
            operator.post(f"{API}/operations", json={"kind": "cancel", "filters": {"args": {name: guess}}}),
            operator.get(f"{DASHBOARD}/steps", params={f"args.{name}": guess}, headers=PAGE),
            operator.post(f"{DASHBOARD}/operations/preview", data={"all": "cancel", f"filter.args.{name}": guess}),
        ):
            says_what_happened(answer)


# Browsers ---------------------------------------------------------------------------------------------------------


@pytest.mark.one_database
@pytest.mark.parametrize(
    "path",
    ["//evil.example", "/\\evil.example", "https://evil.example", "/../../x", "/steps/..", "/%0d%0aa:x", "data:1"],
)
def test_an_action_leads_to_no_address_outside_of_the_dashboard(shop: Stepwell, path: str) -> None:
    answer = client(web(shop)).post(f"{DASHBOARD}/breaker/resume", data={"next": path})
    assert (answer.status_code, answer.headers["location"]) == (303, f"{DASHBOARD}/")


@pytest.mark.one_database
def test_the_page_of_a_refusal_can_still_act(shop: Stepwell) -> None:
    made = web(shop)
    visitor = browser(made)
    csrf = csrf_of(visitor, made)
    page = visitor.post(f"{DASHBOARD}/steps/999/retry", data={"csrf": csrf}, headers=PAGE)
    says_what_happened(page, 404)
    assert f'name="csrf" value="{csrf}"' in page.text
    assert 'name="csrf" value=""' not in page.text


@pytest.mark.one_database
def test_a_sign_in_that_fails_is_a_page_for_people_and_a_problem_for_programs(shop: Stepwell) -> None:
    visitor = client(web(shop), None, **{"sec-fetch-site": "same-origin"})
    page = visitor.post(f"{DASHBOARD}/login", data={"token": "<b>wrong"}, headers=PAGE)
    says_what_happened(page, 401)
    assert (page.headers["content-type"], "<b>wrong" in page.text) == (HTML, False)
    program = visitor.post(f"{DASHBOARD}/login", data={"token": "wrong"})
    assert program.headers["content-type"] == PROBLEM


@pytest.mark.one_database
def test_a_page_that_has_not_changed_is_not_sent_again_also_behind_a_proxy_that_compresses(shop: Stepwell) -> None:
    program = client(web(shop))
    tag = program.get(f"{DASHBOARD}/workers").headers["etag"]
    for given, status in ((tag, 304), (f"W/{tag}", 304), (f'"x", {tag}', 304), ('"x"', 200), ("garbage", 200)):
        assert program.get(f"{DASHBOARD}/workers", headers={"if-none-match": given}).status_code == status, given


@pytest.mark.one_database
def test_an_action_during_an_outage_does_not_claim_that_nothing_changed(
    shop: Stepwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("the connection was lost during a commit")

    program = client(web(shop))
    with monkeypatch.context() as patch:
        patch.setattr(shop.breaker, "pause", away)
        answers = [
            program.post(f"{DASHBOARD}/breaker/pause", data={"why": "x"}, headers=PAGE),
            program.post(f"{DASHBOARD}/toggle", json={"enabled": False}),
            program.post(f"{API}/breaker/pause", json={}),
        ]
    assert [answer.status_code for answer in answers] == [503, 503, 503]
    assert [answer.headers["content-type"] for answer in answers] == [HTML, "application/problem+json", PROBLEM]
    assert not any("nothing changed" in answer.text.lower() for answer in answers)
