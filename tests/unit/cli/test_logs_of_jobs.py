"""What `stepwell up` logs about steps: what the code of jobs logs, and what the worker does, with every executor."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepwell import State, Stepwell
from tests.unit.cli.support import PATIENCE, command, environment, run, until

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
EXECUTORS = ["process", "thread", "async"]
JOBS = """
import asyncio, logging, threading, warnings
from stepwell import Stepwell

{config}
log = logging.getLogger("shop")
app = Stepwell("sqlite:///{path}")

@app.job(retries=1, backoff=0)
def greet(name: str) -> None:
    log.warning("hello %s", name)
    thread = threading.Thread(target=log.warning, args=("from a thread",))
    thread.start()
    thread.join()
    raise ValueError(f"no {{name}}")

@app.job()
async def later() -> None:
    await asyncio.sleep(0)
    log.info("much later")

@app.job()
def indirect() -> None:
    forged = "x\\n2026-01-01T00:00:00.000Z ERROR forged password=s3cret"
    warnings.warn(forged)
    thread = threading.Thread(target=int, args=(forged,))
    thread.start()
    thread.join()
"""


@pytest.fixture
def shop(tmp_path: Path) -> Stepwell:
    (tmp_path / "shop.py").write_text(JOBS.format(path=tmp_path / "shop.db", config=""), encoding="utf-8")
    return Stepwell(f"sqlite:///{tmp_path / 'shop.db'}").open()


@contextmanager
def up(app: Stepwell, tmp_path: Path, *options: str, stderr: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    """`stepwell up`, from when all steps have ended until it is stopped."""
    arguments = command(app.database.url, "up", "--app", "shop:app", "--slots", "1", *options)
    with subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=stderr, text=True, env=environment(), cwd=tmp_path
    ) as started:
        try:
            all_end(app, started)
            yield started
        finally:
            if started.poll() is None:
                started.terminate()


def all_end(app: Stepwell, started: subprocess.Popen[str]) -> None:
    until(lambda: started.poll() is not None or all(step.state.is_terminal for step in app.steps()))
    assert started.poll() is None, "it has died"


def log_of(app: Stepwell, tmp_path: Path, *options: str) -> list[str]:
    with up(app, tmp_path, *options) as started:
        started.terminate()
        return started.communicate(timeout=PATIENCE)[1].splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
def test_records_of_a_job_carry_time_step_attempt_and_workflow(shop: Stepwell, tmp_path: Path, executor: str) -> None:
    step = shop.enqueue("greet", {"name": "ann"}, max_retries=1)
    workflow = shop.step(step).workflow_id
    lines = log_of(shop, tmp_path, "-v", "--executor", executor)
    for attempt in (1, 2):
        for text in ("hello ann", "from a thread"):
            pattern = rf"{TIME} WARNING \[step {step.id} attempt {attempt} workflow {workflow}\] {text}"
            assert any(re.fullmatch(pattern, line) for line in lines), "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
def test_verbose_shows_steps_beginning_and_ending(shop: Stepwell, tmp_path: Path, executor: str) -> None:
    good, bad = shop.enqueue("later"), shop.enqueue("greet", {"name": "bob"}, max_retries=1)
    one, two = (shop.step(step).workflow_id for step in (good, bad))
    lines = log_of(shop, tmp_path, "-v", "--executor", executor)
    took = r"after \d+\.\d{3} s"
    for pattern in (
        rf"{TIME} INFO \[workflow {one}\] step {good.id} \(later\) attempt 1 began",
        rf"{TIME} INFO \[step {good.id} attempt 1 workflow {one}\] much later",
        rf"{TIME} INFO \[workflow {one}\] step {good.id} \(later\) attempt 1 ended: Completed {took}",
        rf"{TIME} INFO \[workflow {two}\] step {bad.id} \(greet\) attempt 1 ended: Pending {took}: ValueError: no bob",
        rf"{TIME} ERROR \[workflow {two}\] step {bad.id} \(greet\) attempt 2 ended: Failed {took}: ValueError: no bob",
    ):
        assert any(re.fullmatch(pattern, line) for line in lines), "\n".join([pattern, *lines])


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
def test_json_has_the_step_and_its_workflow_as_fields(shop: Stepwell, tmp_path: Path, executor: str) -> None:
    step = shop.enqueue("greet", {"name": "ann\n{}"}, max_retries=1)
    workflow = shop.step(step).workflow_id
    records = [json.loads(line) for line in log_of(shop, tmp_path, "-v", "--log-format=json", "--executor", executor)]
    about = [record for record in records if record.get("step_id") == step.id]
    assert {record["workflow_id"] for record in about} == {workflow}
    assert {(record["attempt"], record["message"]) for record in about} >= {(1, "hello ann\n{}"), (2, "from a thread")}
    (failed,) = [record for record in about if record.get("state") == State.FAILED]
    assert (failed["level"], failed["action"], failed["attempt"]) == ("ERROR", "greet", 2)
    assert failed["duration"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
def test_warnings_and_errors_of_threads_are_records_of_their_step(
    shop: Stepwell, tmp_path: Path, executor: str
) -> None:
    """Python printed them to stderr as they were: their text could forge a line, and had its passwords."""
    step = shop.enqueue("indirect")
    workflow = shop.step(step).workflow_id
    lines = log_of(shop, tmp_path, "--executor", executor)
    prefix = rf"{TIME} (WARNING|ERROR) \[step {step.id} attempt 1 workflow {workflow}\] "
    assert [line for line in lines if not re.match(rf"{prefix}|    \| ", line)] == []
    text = "\n".join(lines)
    assert "UserWarning: x\\n2026-01-01" in text
    assert "error in thread Thread-" in text
    assert "s3cret" not in text


@pytest.mark.slow
def test_the_file_has_ticks_runs_and_records_of_jobs_although_stderr_shows_only_warnings(
    shop: Stepwell, tmp_path: Path
) -> None:
    shop.enqueue("later")
    shop.breaker.pause("tester")
    shop.breaker.resume("tester")
    (tmp_path / "stepwell.toml").write_text('[log]\nfile = "logs/stepwell.log"\nformat = "json"\n', encoding="utf-8")
    assert log_of(shop, tmp_path) == []
    messages = [json.loads(line)["message"] for line in (tmp_path / "logs/stepwell.log").read_text().splitlines()]
    assert "much later" in messages


@pytest.mark.slow
def test_an_app_that_has_chosen_no_format_gets_that_of_stepwell(tmp_path: Path) -> None:
    config = "logging.basicConfig(level=logging.INFO)"
    (tmp_path / "shop.py").write_text(JOBS.format(path=tmp_path / "shop.db", config=config), encoding="utf-8")
    with Stepwell(f"sqlite:///{tmp_path / 'shop.db'}") as app:
        step = app.enqueue("later")
        workflow = app.step(step).workflow_id
        lines = log_of(app, tmp_path)
    pattern = rf"{TIME} INFO \[step {step.id} attempt 1 workflow {workflow}\] much later"
    assert any(re.fullmatch(pattern, line) for line in lines), lines


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_reader_of_stderr_that_goes_away_does_not_stop_a_worker(
    shop: Stepwell, tmp_path: Path, executor: str
) -> None:
    reading, writing = os.pipe()
    shop.enqueue("later")
    with up(shop, tmp_path, "-v", "--executor", executor, stderr=writing) as started:
        os.close(writing)
        os.close(reading)
        for _ in range(3):
            shop.enqueue("later")
        all_end(shop, started)
    assert {step.state for step in shop.steps()} == {State.COMPLETED}
    assert started.returncode == 0


@pytest.mark.slow
def test_a_command_that_was_started_without_stderr_works(shop: Stepwell, tmp_path: Path) -> None:
    step = shop.enqueue("later")
    line = " ".join(command(shop.database.url, "up", "-v", "--app", "shop:app", "--slots", "1")) + " 2>&-"
    with subprocess.Popen(
        ["sh", "-c", f"exec {line}"], stdout=subprocess.DEVNULL, env=environment(), cwd=tmp_path
    ) as started:
        try:
            until(lambda: started.poll() is not None or shop.step(step).state.is_terminal)
        finally:
            started.terminate()
    assert (shop.step(step).state, started.returncode) == (State.COMPLETED, 0)


def test_a_log_file_that_cannot_be_written_is_refused_before_anything_starts(shop: Stepwell, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    message = run(shop.database.url, "dispatcher", "--log-file", f"{tmp_path}/taken/x.log", code=1).stderr
    assert message.startswith(f"stepwell: cannot write the log to {tmp_path}/taken/x.log: ")
