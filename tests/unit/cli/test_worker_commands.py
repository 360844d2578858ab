"""`stepwell workers`, `limits`, `up`, `worker` and `reaper` at the terminal."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell import Stepwell
from stepwell.run.worker_row import WorkerRow
from tests.unit.cli.support import PATIENCE, environment, finished, run, run_bare


@pytest.fixture
def app(tmp_path: Path) -> Stepwell:
    return Stepwell(f"sqlite:///{tmp_path}/stepwell.db").open()


def test_without_a_worker_it_says_how_to_start_one(app: Stepwell) -> None:
    assert "stepwell up --app" in run(app.database.url, "workers").stdout


def test_workers_are_shown_with_what_they_serve_and_run(app: Stepwell) -> None:
    WorkerRow(app.database, ["candles", "default"], {"fetch", "store"}, 4)
    shown = run(app.database.url, "workers").stdout
    assert "0 of 4" in shown
    assert "candles, default" in shown
    assert "fetch, store" in shown
    (row,) = json.loads(run(app.database.url, "workers", "--json").stdout)
    assert (row["alive"], row["queues"], row["actions"]) == (True, ["candles", "default"], ["fetch", "store"])


def test_limits_are_set_shown_and_lifted(app: Stepwell) -> None:
    url = app.database.url
    assert "No limits" in run(url, "limits").stdout
    assert "candles" in run(url, "limits", "--queue", "candles=4", "--total", "10").stdout
    assert app.limits.all() == {("queue", "candles"): 4, ("total", ""): 10}
    run(url, "limits", "--queue", "candles=none")
    assert json.loads(run(url, "limits", "--json").stdout) == [{"kind": "total", "name": "", "maximum": 10}]


@pytest.mark.parametrize("wrong", [["--queue", "candles"], ["--action", "=4"], ["--total", "many"], ["--total", "-1"]])
def test_a_limit_that_cannot_be_read_is_refused_and_nothing_changes(app: Stepwell, wrong: list[str]) -> None:
    ended = run(app.database.url, "limits", *wrong, code=2)
    assert ended.stderr.startswith("stepwell: --")
    assert app.limits.all() == {}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "no app: use --app"),
        ("shop", "does not name an app"),
        ("no_such_module:app", "no module named 'no_such_module'"),
        ("json:dumps", "dumps"),
        ("json:nothing", "module json has no variable 'nothing'"),
        ("json:decoder.nothing", "module json has no variable 'decoder.nothing'"),
        ("json:decoder", "json:decoder is of type module"),
    ],
)
def test_an_app_that_cannot_be_found_is_refused_in_one_line(name: str | None, message: str) -> None:
    ended = run_bare("up", *(["--app", name] if name else []), code=2)
    assert message in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


BROKEN = {
    "raises": ("import settings\n\nsettings.read()", "settings.py:5: KeyError: 'DATABASE_URL'; nothing was started"),
    "unreadable": ("number = 1\nnumber = (", "unreadable.py:2: SyntaxError: '(' was never closed"),
    "through_another": ("import unreadable", "unreadable.py:2: SyntaxError"),
    "exits": ("import sys\n\nsys.exit('bye')", "exits.py:3: SystemExit: bye; nothing was started: move that below"),
    "json_wanted": ("import json_wanted.nothing", "json_wanted.py:1: ModuleNotFoundError: No module named"),
    "json_": ("import js", "json_.py:1: ModuleNotFoundError: No module named 'js'"),
    "library": ("import json\n\njson.loads('{')", "library.py:3: JSONDecodeError: Expecting property name"),
    "ours": ("import stepwell\n\nstepwell.Stepwell('sqlite://').job('f')", "ours.py:3: StepwellError: app.job('f')"),
}
SETTINGS = """import os


def read():
    return os.environ["DATABASE_URL"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "settings.py").write_text(SETTINGS, encoding="utf-8")
    for name, (code, _) in BROKEN.items():
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    (tmp_path / "makes.py").write_text("import settings\n\nmake = settings.read", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("command", ["worker", "up"])
@pytest.mark.parametrize("module", BROKEN)
def test_an_app_that_cannot_be_imported_is_reported_with_the_line_that_failed(
    project: Path, module: str, command: str
) -> None:
    ended = finished(command, "--app", f"{module}:app", cwd=project, url="sqlite:///none.db")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"stepwell: {module} cannot be imported: {project}/")
    assert BROKEN[module][1] in line
    assert line.endswith("(-v shows the traceback)")
    assert ended.returncode == 2


def test_a_factory_that_raises_is_reported_with_the_line_that_failed(project: Path) -> None:
    ended = finished("worker", "--app", "makes:make", cwd=project, url="sqlite:///none.db")
    assert ended.stderr.startswith(f"stepwell: makes:make cannot be called: {project}/settings.py:5: KeyError: ")
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)


def test_the_traceback_is_shown_on_request_and_begins_in_the_app(project: Path) -> None:
    ended = finished("worker", "--app", "raises:app", "-v", cwd=project, url="sqlite:///none.db")
    first, *_, last = ended.stderr.strip().splitlines()
    assert (first, ended.returncode) == ("Traceback (most recent call last):", 2)
    assert last.startswith("stepwell: raises cannot be imported: ")
    assert "in <module>" in ended.stderr
    assert "in read" in ended.stderr
    assert "importlib" not in ended.stderr
    assert "locate.py" not in ended.stderr


ON_A_SERVER = """
from stepwell import Stepwell

app = Stepwell("{url}")
"""


@pytest.fixture
def unreachable_url() -> Iterator[str]:
    """A port that nothing listens on, reserved for this test."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"postgresql://me:secret@127.0.0.1:{held.getsockname()[1]}/shop"


@pytest.mark.parametrize("command", ["worker", "up", "dispatcher", "reaper"])
def test_a_server_that_does_not_answer_at_the_start_is_reported_in_one_line(
    tmp_path: Path, unreachable_url: str, command: str
) -> None:
    (tmp_path / "shop.py").write_text(ON_A_SERVER.format(url=unreachable_url), encoding="utf-8")
    app = ("--app", "shop:app") if command in ("worker", "up") else ()
    ended = finished(command, *app, cwd=tmp_path, url=unreachable_url)
    (line,) = ended.stderr.splitlines()
    assert line.startswith("stepwell: PostgreSQL cannot be reached (connection failed: ")
    assert "Connection refused" in line
    assert "nothing was written: check that the server is running and that the URL is right, then try again" in line
    assert ("secret" in line, ended.stdout, ended.returncode) == (False, "", 1)


def test_a_file_that_cannot_be_opened_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import stepwell\n\napp = stepwell.Stepwell('sqlite:///none/x.db')", "utf-8")
    ended = finished("worker", "--app", "shop:app", cwd=tmp_path, url="sqlite:///none.db")
    assert (ended.stderr.count("\n"), ended.returncode) == (1, 1)
    assert "does not exist: create it" in ended.stderr


def test_one_round_of_the_reaper_reports_what_it_did(app: Stepwell) -> None:
    message = run(app.database.url, "reaper", "--once").stdout
    assert message == "0 steps rescued, 0 failed as poison, 0 returned to Pending unclaimed, 0 leases released.\n"


JOBS = """
import os
import signal

from stepwell import NewStep, Stepwell

app = Stepwell("sqlite:///jobs.db")
ran = []


def note(name: str) -> None:
    ran.append(name)
    if len(ran) == 12:
        print("Ran:", " ".join(sorted(ran)))
        os.kill(os.getpid(), signal.SIGTERM)


for name, weight in (("heavy", 3), ("light", 1)):
    app.job(name=name, weight=weight)(note)
    app.enqueue_many(NewStep(action=name, arguments={"name": name}) for _ in range(40))
"""


@pytest.mark.parametrize(("strategy", "light"), [("oldest-first", 0), ("by-weight", 3)])
def test_the_strategy_of_a_worker_can_be_chosen(tmp_path: Path, strategy: str, light: int) -> None:
    (tmp_path / "jobs.py").write_text(JOBS, encoding="utf-8")
    options = ["--app", "jobs:app", "--executor", "thread", "--slots", "1", "--strategy", strategy]
    ended = subprocess.run(
        [sys.executable, "-m", "stepwell.cli", "worker", *options],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    (line,) = (line for line in ended.stdout.splitlines() if line.startswith("Ran:"))
    assert abs(line.count("light") - light) <= 1
    assert ("shared between jobs by weight" in ended.stdout) == (strategy == "by-weight")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [("--grace", "-1", "'--grace'"), ("--queues", " , ", "'--queues'"), ("--slots", "0", "'--slots'")],
)
def test_an_option_that_makes_no_sense_is_refused(tmp_path: Path, option: str, value: str, message: str) -> None:
    (tmp_path / "jobs.py").write_text(JOBS, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "stepwell.cli", "worker", "--app", "jobs:app", option, value],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (ended.returncode, message in ended.stderr) == (2, True)


@pytest.mark.parametrize("command", ["worker", "up"])
def test_the_help_names_the_strategies(command: str) -> None:
    assert "--strategy [oldest-first|by-weight]" in run_bare(command, "--help").stdout
