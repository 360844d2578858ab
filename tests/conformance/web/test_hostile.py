"""What hostile visitors send: no address fails, no secret is shown or found out, no slow request holds a connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from stepwell import Permanent, Stepwell, current_step
from stepwell.web import Role
from stepwell.web.server import WebPart
from stepwell.web.slow import PromptRequests
from tests.conformance.web.support import client, web
from tests.conformance.web.test_guard import all_paths

DASHBOARD = "/step-dispatcher"
CANARY = "canary-5ecret-9f"
IMAGE = "<img src=x onerror=alert(1)>"
NUMBERS = ("9" * 19, "9" * 30, "9" * 5_000, "-1", "٣", "²", "1e400", "0x1")
TEXTS = ("\x00", "\ud83d\ude00", IMAGE, "%", "..", "a:b", "[1", "null")
TIMES = ("9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+23:00", "2026-02-30T00:00:00Z")
SCREENS = {
    "/steps": (
        "state",
        "action",
        "workflow",
        "parent",
        "cause",
        "status",
        "relatable",
        "args.x",
        "arg",
        "before",
        "did",
    ),
    "/operations": ("before",),
    "/workflows": ("before", "state", "name"),
    "/schedules/1": ("status",),
    "/schedules/1/edit?expression=1+2+*+*+*": ("tz", "params", "jitter", "max_retry", "timeout_seconds", "misfire"),
    "/schedules/1/backfill?last=2026-01-01T00:00": ("first",),
    "/go": ("q",),
}


@pytest.fixture
def hostile(app: Stepwell) -> Stepwell:
    """Secrets and markup in everything that is stored."""

    @app.job()
    def work(password: str = "", text: str = "", nested: dict[str, str] | None = None) -> dict[str, str]:
        current_step().log(f"password={CANARY}; {{'api_key': '{CANARY}'}}; Authorization: Bearer {CANARY}; {IMAGE}")
        if text:
            raise Permanent(f"no answer from postgresql://ann:{CANARY}@db/jobs {text}")
        return {"token": CANARY}

    why = f"password={CANARY} {IMAGE}"
    app.enqueue("work", {"password": CANARY, "nested": {"apiKey": CANARY}})
    failed = app.enqueue("work", {"text": IMAGE}, label=IMAGE, relatable=(IMAGE, 1))
    app.run_until_idle()
    app.retry(failed, who=IMAGE, why=why)
    app.run_until_idle()
    waiting = app.enqueue("work", {"password": CANARY}, delay=3_600)
    app.cancel(waiting, who=IMAGE, why=why)
    app.schedules.create("nightly", "30 2 * * *", "work", {"password": CANARY}, who=IMAGE, why=why, description=IMAGE)
    app.schedules.disable("nightly", who=IMAGE, why=why)
    app.breaker.pause(IMAGE, why)
    return app


def addresses(browser: TestClient, made_paths: list[tuple[str, set[str]]]) -> Iterator[str]:
    """Every address that can be read, with the ids that there are."""
    workflow = browser.get("/api/v1/steps").json()["items"][-1]["workflow_id"]
    cause = browser.get("/api/v1/failures").json()
    fingerprint = cause[0]["fingerprint"]
    for path, methods in made_paths:
        if "GET" in methods and not path.endswith("/events"):
            for step in ("1", "2", "3"):
                yield path.replace("/x", f"/{fingerprint}").replace("/1", f"/{step}")
    for view in ("tree", "graph", "timeline"):
        yield f"{DASHBOARD}/workflows/{workflow}?view={view}"
    yield from (f"/api/v1/schedules/nightly{more}" for more in ("", "/changes", "/slots", "/executions"))
    yield from (f"/api/v1/workflows/{workflow}{more}" for more in ("", "/tree", "/history"))


def test_no_secret_and_no_markup_is_shown_at_any_address(hostile: Stepwell) -> None:
    made = web(hostile)
    reader = client(made, Role.READ)
    found, asked = list[str](), 0
    for address in dict.fromkeys(addresses(reader, all_paths(made))):
        answer = reader.get(address, headers={"accept": "text/html"})
        asked += answer.status_code == 200
        if CANARY in answer.text:
            found.append(f"{address}: {answer.text[max(0, answer.text.index(CANARY) - 60) :][:90]}")
        if "text/html" in answer.headers.get("content-type", "") and IMAGE in answer.text:
            found.append(f"{address}: markup")
    assert not found, "\n".join(found)
    assert asked > 50


def test_a_secret_cannot_be_found_out_by_a_search_or_by_a_preview(hostile: Stepwell) -> None:
    operator = client(web(hostile), Role.OPERATE)
    for path in ("password", "nested.apiKey", "nested.api_key.x"):
        for guess in (CANARY, "another"):
            answers = [
                operator.get(f"{DASHBOARD}/steps", params={f"args.{path}": guess}),
                operator.post(f"{DASHBOARD}/operations/preview", data={"all": "skip", f"filter.args.{path}": guess}),
                operator.get("/api/v1/steps", params={"args": f"{path}={guess}"}),
            ]
            assert [answer.status_code for answer in answers] == [400, 400, 422]
            assert all("secret" in answer.text for answer in answers)
    whole = f'{{"apiKey":"{CANARY}"}}'
    assert operator.get(f"{DASHBOARD}/steps", params={"args.nested": whole}).status_code == 400


def test_no_address_fails_whatever_its_parameters_are(hostile: Stepwell) -> None:
    admin = client(web(hostile))
    found = []
    for path, names in SCREENS.items():
        for name in names:
            for value in (*NUMBERS, *TEXTS, *TIMES):
                found.append(f"{path}{'&' if '?' in path else '?'}{name}={quote(value, errors='surrogatepass')}")
    for place in ("steps", "failures", "operations", "workflows", "schedules", "groups", "go"):
        found += [f"/{place}/{quote(value, errors='surrogatepass')}" for value in (*NUMBERS, *TEXTS)]
    failed = [address[:80] for address in found if admin.get(f"{DASHBOARD}{address}").status_code >= 500]
    assert not failed


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("ended_after", value) for value in ("1", "1.5", "2026-01-01 00:00:00Z", "2026-01-01T00:00:00+0000", *TIMES)),
        *(("workflow", value) for value in ("01890000-0000-7000-8000-000000000000\n", "{}")),
        *(("parent", value) for value in ("1e2", "1.0", " 1", "+1", "0", "9" * 19)),
        ("relatable", "order"),
    ],
)
def test_a_parameter_is_taken_only_as_the_document_describes_it(app: Stepwell, name: str, value: str) -> None:
    assert client(web(app)).get("/api/v1/steps", params={name: value}).status_code == 422


@pytest.mark.one_database
def test_times_in_a_body_must_exist_in_utc(hostile: Stepwell) -> None:
    body = {"first": "0001-01-01T00:00:00+23:00", "last": "2026-01-01T00:00:00Z"}
    assert client(web(hostile)).post("/api/v1/schedules/nightly/backfill", json=body).status_code == 422


@pytest.mark.one_database
def test_what_needs_the_role_admin_in_the_api_needs_it_on_a_screen(hostile: Stepwell) -> None:
    operator, admin = (client(web(hostile), role) for role in (Role.OPERATE, Role.ADMIN))
    for what in ("edit", "delete", "reset"):
        assert operator.post(f"{DASHBOARD}/schedules/1/{what}").status_code == 403, what
    assert operator.post(f"{DASHBOARD}/schedules/1/do/reset").status_code == 400
    assert operator.post(f"{DASHBOARD}/schedules/1/do/enable").status_code == 303
    assert admin.post(f"{DASHBOARD}/schedules/1/reset").status_code == 409  # this one is not declared in code


@pytest.fixture
def port(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A real server, which waits a tenth of a second for the headers of a request."""
    monkeypatch.setattr(PromptRequests, "header_seconds", 0.1)
    part = WebPart(web(app))
    part.listen_on("127.0.0.1", 0)
    thread = threading.Thread(target=part.round, args=([],))
    thread.start()
    yield int(part.url.rpartition(":")[2])
    part.stop(at_once=True)
    thread.join()
    part.close()


@pytest.mark.one_database
def test_a_connection_whose_request_does_not_arrive_is_closed(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as silent:
        assert silent.recv(1) == b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
        slow.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while not answer.endswith(b"}"):
            answer += slow.recv(65_536)
        slow.sendall(b"GET /health/live HTTP/1.1\r\nHost: ")  # the next one on the same connection
        assert slow.recv(1) == b""


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("request_line", "headers"),
    [
        (b"GET /health/live HTTP/1.1", b"Host: localhost\r\nX: " + b"a" * 200_000),
        (b"GET /health/live HTTP/1.1", b"Host: localhost\r\nHost: localhost"),
        (b"GET /health/live HTTP/1.1", b"X: y"),
        (b"GET http://evil.example/health/live HTTP/1.1", b"Host: evil.example"),
        (b"GET /health/live HTTP/1.0", b"Host: localhost@evil.example"),
        (b"GET /health/live/../status HTTP/1.1", b"Host: localhost"),
        (b"GET /health/live%2f..%2fstatus HTTP/1.1", b"Host: localhost"),
        (b"GET //evil.example/%2e%2e HTTP/1.1", b"Host: localhost"),
    ],
)
def test_malformed_and_disguised_requests_are_refused(port: int, request_line: bytes, headers: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as attacker:
        attacker.sendall(request_line + b"\r\n" + headers + b"\r\n\r\n")
        status = int(attacker.recv(65_536).split()[1])
    assert 400 <= status < 500
