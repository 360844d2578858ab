"""Commands that load an app besides `worker` and `up`, and workers of some groups, as separate processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell import Stepwell
from tests.unit.cli.support import environment, finished, process

SHOP = """
from stepwell import Stepwell

app = Stepwell("{url}")


@app.job(queue="emails", retries=0, timeout=5, concurrency_key=lambda to: f"to:{{to}}")
def mail(to: str) -> str:
    return to
"""


@pytest.fixture
def shop(tmp_path: Path) -> tuple[Path, str]:
    url = f"sqlite:///{tmp_path}/shop.db"
    Stepwell(url).open().close()
    (tmp_path / "shop.py").write_text(SHOP.format(url=url), encoding="utf-8")
    return tmp_path, url


def test_enqueue_with_an_app_computes_a_key_that_is_a_function_and_checks_arguments(shop: tuple[Path, str]) -> None:
    folder, url = shop
    made = finished(
        "enqueue", "mail", "--app", "shop:app", "--arguments", '{"to": "ann"}', "--json", cwd=folder, url=url
    )
    step = json.loads(made.stdout)
    assert (step["queue"], step["max_retries"], step["concurrency_key"]) == ("emails", 0, "to:ann")
    assert made.stderr == ""
    bad = finished("enqueue", "mail", "--app", "shop:app", "--arguments", '{"whom": 1}', cwd=folder, url=url)
    assert (bad.returncode, "mail" in bad.stderr) == (1, True)


def test_a_dispatcher_with_an_app_records_its_jobs(shop: tuple[Path, str]) -> None:
    folder, url = shop
    with process(url, "dispatcher", "--app", "shop:app", cwd=folder) as started:
        assert started.stdout is not None
        assert started.stdout.readline().startswith("Dispatching")
        started.send_signal(signal.SIGTERM)
        assert started.wait() == 0
    with Stepwell(url) as app:
        assert [(row.name, row.queue) for row in app.reader.jobs()] == [("mail", "emails")]


@pytest.mark.parametrize("command", ["worker", "up", "dispatcher"])
def test_an_unknown_group_is_warned_about_with_the_one_that_was_probably_meant(
    shop: tuple[Path, str], command: str
) -> None:
    folder, url = shop
    with process(url, command, "--app", "shop:app", "--group", "alhpa", "--group", "beta", cwd=folder) as started:
        assert started.stdout is not None
        assert "Ctrl-C" in next(line for line in iter(started.stdout.readline, "") if "Ctrl-C" in line)
        started.send_signal(signal.SIGTERM)
        _, errors = started.communicate()
    (warning,) = [line for line in errors.splitlines() if "unknown group" in line]
    assert "'alhpa'" in warning
    assert warning.endswith("did you mean alpha?")


@pytest.mark.parametrize("command", ["worker", "up"])
def test_a_worker_of_some_groups_says_so_and_serves_them_alone(shop: tuple[Path, str], command: str) -> None:
    folder, url = shop
    groups = ["--group", "alpha", "--group", "beta"]
    with process(url, command, "--app", "shop:app", "--slots", "1", *groups, cwd=folder) as started:
        assert started.stdout is not None
        lines = iter(started.stdout.readline, "")
        assert "Groups: alpha, beta.\n" in (line for line in lines)
        with Stepwell(url) as app:
            assert [row.groups for row in app.workers()] == [["alpha", "beta"]]
        started.send_signal(signal.SIGTERM)
        assert started.wait() == 0


def test_a_worker_says_how_other_commands_find_its_database(shop: tuple[Path, str]) -> None:
    folder, url = shop
    line = f"For commands in another terminal: export STEPWELL_DB={url}\n"
    assert line in _output_of_up(folder, {})[0]
    assert line not in _output_of_up(folder, {"STEPWELL_DB": url})[0]


def test_a_configured_database_that_is_not_that_of_the_app_is_warned_about(shop: tuple[Path, str]) -> None:
    folder, url = shop
    _, errors = _output_of_up(folder, {"STEPWELL_DB": "sqlite:///other.db"})
    assert errors.startswith(
        f"stepwell: warning: shop:app is on {url}, as its code says; sqlite:///other.db (STEPWELL_DB) is not used."
    )
    assert not (folder / "other.db").exists()
    same_file = f"sqlite:///{folder}/../{folder.name}/shop.db"
    assert _output_of_up(folder, {"STEPWELL_DB": same_file})[1] == ""


def _output_of_up(folder: Path, variables: dict[str, str]) -> tuple[str, str]:
    command = [sys.executable, "-m", "stepwell.cli", "up", "--app", "shop:app", "--slots", "1", "--no-web"]
    with subprocess.Popen(
        command, cwd=folder, env=environment() | variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as up:
        assert up.stdout is not None
        assert up.stderr is not None
        next(line for line in iter(up.stdout.readline, "") if "Ctrl-C" in line)
        up.send_signal(signal.SIGTERM)
        output, errors = up.stdout.read(), up.stderr.read()  # not communicate(): lines may be in the buffer already
    assert up.returncode == 0, errors
    return output, errors
