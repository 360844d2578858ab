"""`stepwell web`, and the dashboard of `stepwell up`."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stepwell import Stepwell
from tests.unit.cli.support import PATIENCE, process, run

TOKEN = "a-token-of-twenty-eight-chars"
JOBS = """
from stepwell import Stepwell
app = Stepwell("{url}")

@app.job()
def double(number: int, password: str = "") -> int:
    return 2 * number
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    Stepwell(f"sqlite:///{tmp_path}/stepwell.db").open().close()
    return f"sqlite:///{tmp_path}/stepwell.db"


def link_of(started: subprocess.Popen[str]) -> str:
    """The link of the dashboard, from what the command prints."""
    assert started.stdout is not None
    for line in started.stdout:
        if line.startswith("Dashboard: "):
            return line.removeprefix("Dashboard: ").strip()
    raise AssertionError(f"no link: {started.communicate()}")


@contextmanager
def signed_in(link: str) -> Iterator[httpx2.Client]:
    """A browser that has opened the link."""
    base, _, code = link.partition("/step-dispatcher/login#code=")
    with httpx2.Client(base_url=base, headers={"sec-fetch-site": "same-origin"}, timeout=PATIENCE) as client:
        assert client.post("/step-dispatcher/login", data={"code": code}).status_code == 303
        yield client


def test_it_serves_a_link_that_signs_in_and_stops_on_a_signal_with_a_stream_open(url: str) -> None:
    with process(url, "web", "--port", "0") as started:
        with signed_in(link_of(started)) as client:
            assert client.get("/api/v1/totals").json()["states"]["Pending"] == 0
            with client.stream("GET", "/api/v1/events") as stream:
                lines = stream.iter_lines()
                assert next(lines).startswith(": changes after")
                started.send_signal(signal.SIGTERM)
                for _ in lines:
                    pass
        out, err = started.communicate(timeout=PATIENCE)
    assert (started.returncode, err) == (0, "")
    assert out.splitlines()[-2:] == ["Stopping.", "Stopped."]


@pytest.mark.slow
def test_up_serves_the_dashboard_beside_its_worker_and_ends_with_it(url: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(JOBS.format(url=url))
    (tmp_path / "stepwell.toml").write_text('[web]\nport = 0\n[app]\nname = "shop:app"\n')
    with (
        process(url, "up", "--slots", "1", cwd=tmp_path) as started,
        signed_in(link_of(started)) as client,
        Stepwell(url) as app,
    ):
        step = app.enqueue("double", {"number": 21})
        with client.stream("GET", "/api/v1/events?after=0&state=Completed") as stream:
            assert any(line.startswith("data: ") for line in stream.iter_lines())
        assert client.get(f"/api/v1/steps/{step.id}").json()["response"] == 42
        assert client.get("/health/status").json()["status"] == "ok"
        started.send_signal(signal.SIGTERM)
        _, err = started.communicate(timeout=PATIENCE)
    assert (started.returncode, err) == (0, "")


def test_up_without_web_serves_nothing(url: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(JOBS.format(url=url))
    with process(url, "up", "--app", "shop:app", "--no-web", "--executor", "thread", cwd=tmp_path) as started:
        assert started.stdout is not None
        lines = []
        for line in started.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                started.send_signal(signal.SIGTERM)
        assert not any("http" in line for line in lines)
        assert started.wait(PATIENCE) == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_an_address_that_others_can_reach_needs_a_token(url: str, host: str) -> None:
    refused = run(url, "web", "--host", host, "--port", "0", code=2)
    assert "there is no token, so nothing is served" in refused.stderr
    assert "Dashboard" not in refused.stdout


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        (f"ann admin {TOKEN}", 0o644, "chmod 600"),
        ("ann admin short", 0o600, "at least 16"),
        (f"ann king {TOKEN}", 0o600, "unknown role 'king'"),
        ("ann", 0o600, "expected NAME ROLE TOKEN"),
        ("# nothing\n", 0o600, "has no token"),
    ],
)
def test_a_bad_file_of_tokens_is_refused_with_its_line(
    url: str, tmp_path: Path, text: str, mode: int, message: str
) -> None:
    file = tmp_path / "tokens"
    file.write_text(text)
    file.chmod(mode)
    refused = run(url, "web", "--host", "0.0.0.0", "--token-file", str(file), code=2)
    assert message in refused.stderr
    assert TOKEN not in refused.stderr


def test_a_token_of_the_environment_is_taken_and_never_shown(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_WEB_TOKEN", TOKEN)
    with process(url, "web", "--port", "0", "--read-only") as started:
        base = link_of(started).partition("/step-dispatcher")[0]
        headers = {"authorization": f"Bearer {TOKEN}"}
        assert httpx2.get(f"{base}/api/v1/breaker", headers=headers).status_code == 200
        refused = httpx2.post(f"{base}/api/v1/breaker/pause", headers=headers)
        assert (refused.status_code, refused.json()["detail"]) == (403, "this server is read-only; nothing changed")
        assert httpx2.get(f"{base}/api/v1/breaker", headers={"host": "evil.example", **headers}).status_code == 421
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=PATIENCE)
    assert TOKEN not in out + err


def test_a_port_that_is_in_use_is_said(url: str) -> None:
    with process(url, "web", "--port", "0") as started:
        port = link_of(started).partition("/step-dispatcher")[0].rpartition(":")[2]
        assert "choose another --port" in run(url, "web", "--port", port, code=1).stderr


def test_commands_hide_secrets_unless_asked_for_them(url: str) -> None:
    with Stepwell(url) as app:
        step = app.enqueue("charge", {"card": {"api_key": "c4n4ry"}, "ssn": "078-05"})

    def shown(*options: str, env: dict[str, Any] | None = None) -> str:
        return run(url, "show", str(step.id), *options, env=env).stdout

    for output in (
        shown(),
        shown("--json"),
        run(url, "steps", "--json").stdout,
        run(url, "tree", "1", "--json").stdout,
    ):
        assert "c4n4ry" not in output
    assert "[redacted]" in shown()
    assert "078-05" in shown()
    assert "078-05" not in shown(env={"STEPWELL_REDACTION_NAMES": "ssn"})
    assert "c4n4ry" in shown("--show-secrets")
