"""Every command uses `stepwell.toml` and the environment: which value wins, what reaches the parts, what is refused."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

import stepwell.dispatch.dispatcher
import stepwell.operate.reaper
import stepwell.parts
from stepwell import Stepwell
from stepwell.dispatch.dispatcher import Dispatcher
from stepwell.dispatch.sweep_part import SweepPart
from stepwell.operate.reaper import Reaper
from stepwell.run.build import CheckedWorkerOptions, WorkerBuilder
from stepwell.run.worker import Worker
from stepwell.schedule.options import Options
from stepwell.schedule.scheduler import Scheduler
from stepwell.service.config import all_settings
from stepwell.service.crew import Crew
from stepwell.web.server import WebPart
from tests.unit.cli.support import PATIENCE, environment, run_bare

SHOP = """
from stepwell import Stepwell

app = Stepwell("sqlite:///shop.db")


@app.job()
def greet() -> str:
    return "hello"
"""

# Every setting, with a value that is not its default.
EVERYTHING = """
[database]
url = "sqlite:///shop.db"
max_connections = 5
idle_seconds = 4

[app]
name = "configured_shop:app"
environment = "staging"
queues = ["emails"]

[worker]
slots = 3
executor = "thread"
queues = ["emails", "default"]
groups = ["alpha"]
strategy = "by-weight"
lease_seconds = 20
grace_seconds = "1m"
max_memory = "512M"

[dispatcher]
groups = ["alpha", "beta"]
batch_limit = 100
batch_limits = { alpha = 2 }
lock_seconds = 10
sweep_seconds = "1h"
ticks_kept = 50

[reaper]
round_seconds = 2
unclaimed_seconds = 30
stalled_seconds = 40
dead_worker_retention_seconds = 50
rescues = 1

[scheduler]
poll_interval_seconds = 6
max_sleep_seconds = 7
min_cron_interval_seconds = 120
misfire_grace_seconds = 8

[retention]
keep_days = 60
archive = true
archive_days = "forever"
key_days = 7
batch = 50
pause_seconds = "1m"

[web]
host = "127.0.0.2"
port = 0
token = "0123456789abcdef"
token_file = "tokens"
hosts = ["jobs.example"]
read_only = true

[redaction]
names = ["ssn"]

[log]
format = "json"
file = "logs/dispatcher.log"
level = "info"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory of the commands, with the module of an app in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "configured_shop.py").write_text(SHOP)
    (tmp_path / "tokens").touch(0o600)
    (tmp_path / "tokens").write_text("ann read fedcba9876543210")
    yield tmp_path
    sys.modules.pop("configured_shop", None)


def configure(folder: Path, text: str) -> None:
    (folder / "stepwell.toml").write_text(text)


def ask(*arguments: str, code: int = 0) -> Any:
    return json.loads(run_bare(*arguments, "--json", code=code).stdout)


class Made:
    """The parts that a command made, as it made them; none of them runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.options: dict[str, Any] = {}
        made, build = self.options, WorkerBuilder.build

        class SeenDispatcher(Dispatcher):
            def __init__(self, *place: Any, **options: Any) -> None:
                made["dispatcher"] = options
                super().__init__(*place, **options)
                made["groups"] = self.groups

        class SeenReaper(Reaper):
            def __init__(self, *place: Any, **options: Any) -> None:
                made["reaper"] = options
                super().__init__(*place, **options)

        class SeenSweep(SweepPart):
            def __init__(self, database: Any, groups: Collection[str] | None, seconds: float) -> None:
                made["sweep"] = seconds
                super().__init__(database, groups, seconds)

        class SeenScheduler(Scheduler):
            def __init__(self, *place: Any) -> None:
                made["scheduler"] = place[-1]
                super().__init__(*place)

        def seen_build(builder: WorkerBuilder, settings: CheckedWorkerOptions) -> Worker:
            made["worker"] = settings
            made["max_connections"] = builder.database.max_connections
            made["idle_seconds"] = builder.database.idle_seconds
            return build(builder, settings)

        def seen_listen(part: WebPart, host: str, port: int, *, or_any: bool) -> None:
            made["web"] = (host, port, part.application.site)
            made["or_any_port"] = or_any

        monkeypatch.setattr(WebPart, "listen_on", seen_listen)
        monkeypatch.setattr(stepwell.dispatch.dispatcher, "Dispatcher", SeenDispatcher)
        monkeypatch.setattr(stepwell.operate.reaper, "Reaper", SeenReaper)
        monkeypatch.setattr(stepwell.parts, "SweepPart", SeenSweep)
        monkeypatch.setattr(stepwell.parts, "Scheduler", SeenScheduler)
        monkeypatch.setattr(WorkerBuilder, "build", seen_build)
        monkeypatch.setattr(Crew, "run", lambda crew: None)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    loggers = [logging.getLogger(name) for name in ("stepwell", "stepwell.dispatcher", "psycopg.pool")]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield Made(monkeypatch).options
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        for handler in set(logger.handlers) - set(handlers):
            handler.close()
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


# Which value wins --------------------------------------------------------------------------------------


def test_the_database_is_that_of_the_command_line_then_the_environment_then_the_file(folder: Path) -> None:
    configure(folder, '[database]\nurl = "sqlite:///file.db"')
    run_bare("enqueue", "by_file")
    run_bare("enqueue", "by_variable", env={"STEPWELL_DB": "sqlite:///variable.db"})
    run_bare("--db", "sqlite:///named.db", "enqueue", "by_name", env={"STEPWELL_DB": "sqlite:///variable.db"})
    found = {
        file: [step["action"] for step in ask("--db", f"sqlite:///{file}.db", "steps")]
        for file in ("file", "variable", "named")
    }
    assert found == {"file": ["by_file"], "variable": ["by_variable"], "named": ["by_name"]}
    assert not (folder / "stepwell.db").exists()


def test_an_option_wins_over_the_file(folder: Path, made: dict[str, Any]) -> None:
    configure(folder, EVERYTHING)
    options = ["--slots", "2", "--lease", "1m30s", "--queues", "default", "--group", "gamma", "--max-memory", "1G"]
    run_bare("up", *options)
    worker = made["worker"]
    assert (worker.slots, worker.alive_seconds, worker.queues, worker.max_memory) == (2, 90.0, ("default",), 1 << 30)
    assert made["groups"] == {"gamma"}
    assert made["worker"].groups == ("gamma",)


# What reaches the parts --------------------------------------------------------------------------------


def test_the_configuration_of_these_tests_sets_everything(folder: Path) -> None:
    configure(folder, EVERYTHING)
    run_bare("migrate")
    assert [row["setting"] for row in ask("doctor")["settings"]] == [setting.name for setting in all_settings()]


def test_the_web_server_is_as_configured(folder: Path, made: dict[str, Any]) -> None:
    configure(folder, EVERYTHING)
    run_bare("up")
    host, port, site = made["web"]
    assert (host, port, site.read_only) == ("127.0.0.2", 0, True)
    found = [site.access.by_token(token) for token in ("0123456789abcdef", "fedcba9876543210", "no-such-token-ab")]
    assert [visitor and (visitor.name, str(visitor.role)) for visitor in found] == [
        ("admin", "admin"),
        ("ann", "read"),
        None,
    ]
    assert site.app.redaction.is_secret("SSN")
    assert site.app.workflows.environment == "staging"


def test_up_takes_another_port_only_if_none_is_configured(folder: Path, made: dict[str, Any]) -> None:
    name = '[app]\nname = "configured_shop:app"\n'
    for text, variables, expected in (
        (name, {}, (7837, True)),
        (f"{name}[web]\nport = 7837\n", {}, (7837, False)),
        (name, {"STEPWELL_WEB_PORT": "7837"}, (7837, False)),
        (f"{name}[web]\nport = 7838\n", {}, (7838, False)),
    ):
        configure(folder, text)
        run_bare("up", env=variables)
        assert (made["web"][1], made["or_any_port"]) == expected


def test_the_lock_of_a_dispatcher_is_as_long_as_the_lease_unless_it_is_set(folder: Path, made: dict[str, Any]) -> None:
    configure(folder, '[app]\nname = "configured_shop:app"\n[worker]\nlease_seconds = 7\n')
    run_bare("up")
    assert made["dispatcher"]["lock_seconds"] == 7
    run_bare("up", "--lease", "2")
    assert made["dispatcher"]["lock_seconds"] == 2
    run_bare("dispatcher", "--db", "sqlite:///shop.db")
    assert made["dispatcher"]["lock_seconds"] == 7


def test_up_runs_with_every_setting_of_the_file(folder: Path, made: dict[str, Any]) -> None:
    configure(folder, EVERYTHING)
    run_bare("up")
    worker = made["worker"]
    assert (worker.slots, worker.executor, worker.queues) == (3, "thread", ("emails", "default"))
    assert (worker.alive_seconds, worker.grace_seconds, worker.max_memory, worker.rescues) == (20, 60, 512 << 20, 1)
    assert (type(worker.strategy).__name__, worker.app_name) == ("DivideTotalValueEqually", "configured_shop:app")
    assert (made["groups"], made["sweep"]) == ({"alpha", "beta"}, 3600)
    assert (made["max_connections"], made["idle_seconds"]) == (5, 4)
    assert worker.groups == ("alpha",)
    assert made["dispatcher"] == {
        "batch_limit": 100,
        "batch_limits": {"alpha": 2},
        "lock_seconds": 10,
        "ticks_kept": 50,
    }
    assert made["reaper"] == {
        "round_seconds": 2,
        "unclaimed_seconds": 30,
        "stalled_seconds": 40,
        "dead_worker_retention_seconds": 50,
        "rescues": 1,
    }
    assert made["scheduler"] == Options(
        poll_interval_seconds=6, max_sleep_seconds=7, min_cron_interval_seconds=120, misfire_grace_seconds=8
    )
    assert (folder / "logs" / "dispatcher.log").exists()


@pytest.mark.parametrize(
    ("command", "parts"), [
        ("worker", {"worker"}), ("dispatcher", {"dispatcher", "sweep"}), ("reaper", {"reaper"}),
        ("scheduler", {"scheduler"}),
    ],
)  # fmt: skip
def test_each_part_alone_runs_with_its_settings(
    folder: Path, made: dict[str, Any], command: str, parts: set[str]
) -> None:
    configure(folder, EVERYTHING)
    run_bare("up")
    alike = dict(made)
    made.clear()
    run_bare(command)
    assert {name: made[name] for name in parts} == {name: alike[name] for name in parts}


def test_without_a_file_the_parts_have_their_defaults(folder: Path, made: dict[str, Any]) -> None:
    run_bare("up", "--app", "configured_shop:app", "--executor", "thread")
    assert (made["worker"].alive_seconds, made["worker"].rescues, made["groups"], made["sweep"]) == (30, 3, None, 300)
    assert made["dispatcher"]["batch_limit"] == 512
    assert made["reaper"]["round_seconds"] == 5


def test_dispatch_uses_the_groups_and_the_batch_limit_of_each_group(folder: Path) -> None:
    configure(folder, EVERYTHING)
    for group in ("alpha", "beta", "gamma"):
        for _ in range(3):
            run_bare("enqueue", "greet", "--group", group)
    with Stepwell(f"sqlite:///{folder}/shop.db") as app:
        app.job()(_greet)
        runner = app.inline_runner()
        reports = ask("dispatch", "--once")
        runner.close()
    assert {report["group"]: report["dispatched"] for report in reports} == {"alpha": 2, "beta": 3}


def _greet() -> str:
    return "hello"


_greet.__name__ = "greet"


def test_a_queue_of_the_file_exists(folder: Path) -> None:
    configure(folder, '[app]\nqueues = ["emails"]')
    assert ask("enqueue", "greet", "--queue", "emails")["queue"] == "emails"


def test_a_process_started_in_the_folder_runs_as_configured(folder: Path) -> None:
    configure(folder, EVERYTHING)
    run_bare("enqueue", "greet", "--group", "alpha")
    with subprocess.Popen(
        [sys.executable, "-m", "stepwell.cli", "up"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), cwd=folder,
    ) as started:  # fmt: skip
        try:
            assert started.stdout is not None
            first, queues, *_ = [started.stdout.readline() for _ in range(4)]
            assert first.startswith("Up: configured_shop:app on sqlite:///shop.db, 3 slots (threads), as ")
            assert queues == "Queues: emails, default.\n"
            started.send_signal(signal.SIGINT)
            out, err = started.communicate(timeout=PATIENCE)
        finally:
            if started.poll() is None:
                started.kill()
    assert started.returncode == 0, out + err
    assert "running steps have 60 s to end" in out


# What is refused, and what is shown --------------------------------------------------------------------


def test_every_problem_of_the_configuration_is_a_line_and_nothing_starts(folder: Path) -> None:
    configure(folder, '[worker]\nslots = "four"\nlease = 3\n\n[dispacher]\n')
    ended = run_bare("enqueue", "greet", code=2, env={"STEPWELL_LOG_LEVEL": "loud"})
    assert ended.stdout == ""
    assert ended.stderr.splitlines() == [
        'stepwell.toml:2: [worker] slots = "four": expected a whole number of at least 1',
        "stepwell.toml:3: [worker] lease: unknown setting; did you mean lease_seconds?",
        "stepwell.toml:5: [dispacher]: unknown section; did you mean [dispatcher]?",
        'STEPWELL_LOG_LEVEL = "loud": expected "debug", "info", "warning" or "error"',
    ]
    assert {file.name for file in folder.iterdir()} == {"configured_shop.py", "stepwell.toml", "tokens"}


@pytest.mark.parametrize(
    "arguments",
    [["up"], ["worker"], ["dispatcher"], ["reaper"], ["stats"], ["migrate"], ["--db", "sqlite://", "doctor"]],
)
def test_a_command_that_needs_the_configuration_refuses_a_wrong_one(folder: Path, arguments: list[str]) -> None:
    configure(folder, "[worker]\nslots = 0\n")
    ended = run_bare(*arguments, code=2)
    assert ended.stderr == "stepwell.toml:2: [worker] slots = 0: expected a whole number of at least 1\n"


@pytest.mark.parametrize("arguments", [["--help"], ["up", "--help"], ["completion", "bash"]])
def test_help_needs_no_configuration(folder: Path, arguments: list[str]) -> None:
    configure(folder, "[worker]\nslots = 0\n")
    assert run_bare(*arguments).stderr == ""


def test_help_shows_the_defaults_of_the_file(folder: Path) -> None:
    configure(folder, "[worker]\ngrace_seconds = 77\n")
    assert "[default: 77.0]" in run_bare("up", "--help").stdout


@pytest.mark.parametrize(
    "option", [("--lease", "soon"), ("--grace", "-1"), ("--max-memory", "much"), ("--queues", ",")]
)
def test_an_option_is_refused_like_the_setting(folder: Path, option: tuple[str, str]) -> None:
    ended = run_bare("worker", *option, code=2)
    assert f"Invalid value for '{option[0]}': {option[1]!r}: expected " in ended.stderr


def test_doctor_shows_what_is_not_the_default_and_where_it_was_set(folder: Path) -> None:
    configure(folder, "[worker]\nlease_seconds = 20\nslots = 4\n")
    run_bare("migrate")
    shown = run_bare("doctor", env={"STEPWELL_WORKER_SLOTS": "6", "STEPWELL_ENV": "staging"}).stdout
    assert 'settings       app.environment = "staging" (STEPWELL_ENV)\n' in shown
    assert "               worker.slots = 6 (STEPWELL_WORKER_SLOTS)\n" in shown
    assert "               worker.lease_seconds = 20 (stepwell.toml:2)\n" in shown
    configure(folder, "")
    assert "settings       all at their defaults\n" in run_bare("doctor").stdout


def test_doctor_does_not_show_a_password(folder: Path) -> None:
    configure(folder, '[database]\nurl = "sqlite:///secret.db?password=s3cret"')
    run_bare("--db", "sqlite:///shop.db", "migrate")
    assert "s3cret" not in run_bare("--db", "sqlite:///shop.db", "doctor").stdout
