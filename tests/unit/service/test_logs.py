"""A line of the log: no data can forge one, no password is in one, and no failure to write one stops the program."""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.service.logs.formats import JsonFormatter, TextFormatter
from stepwell.service.logs.handlers import FileHandler, StderrHandler

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ ")
FORGERY = "\n2026-01-01T00:00:00.000Z INFO forged\r\u2028\u2029\x85\x0b\x0c\x1b[2J\u202e\u2066\x9b31m\0"


def record(message: str, *arguments: Any, **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("shop", logging.INFO, __file__, 1, message, arguments, fields.pop("exc_info", None))
    made.__dict__.update(fields)
    return made


def raised(message: str) -> Any:
    try:
        raise ValueError(message)
    except ValueError:
        return sys.exc_info()


@given(st.text() | st.just(FORGERY))
def test_a_message_stays_on_its_line_and_has_no_control_characters(text: str) -> None:
    for formatter in (TextFormatter(), JsonFormatter()):
        line = formatter.format(record("%s", text))
        assert line.isprintable(), line
    assert LINE.match(TextFormatter().format(record("%s", text)))
    assert json.loads(JsonFormatter().format(record("%s", "x" + text)))["message"][0] == "x"


@given(st.text() | st.just(FORGERY))
def test_no_line_of_a_traceback_can_be_taken_for_a_record(text: str) -> None:
    first, *others = TextFormatter().format(record("failed", exc_info=raised(text))).split("\n")
    assert LINE.match(first)
    assert len(others) >= 3
    assert all(line.startswith("    | ") and line.isprintable() for line in others)
    assert JsonFormatter().format(record("failed", exc_info=raised(text))).isprintable()


def test_a_record_of_a_run_names_its_step_its_attempt_and_its_workflow() -> None:
    fields = {"step_id": 7, "workflow_id": "w", "action": "fetch", "attempt": 2}
    assert TextFormatter().format(record("hello", **fields)).endswith(" INFO [step 7 attempt 2 workflow w] hello")
    found = json.loads(JsonFormatter().format(record("hello", **fields)))
    assert found == fields | {
        "time": found["time"], "level": "INFO", "logger": "shop", "message": "hello", "pid": os.getpid()
    }  # fmt: skip


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_no_record_shows_a_password(formatter: logging.Formatter) -> None:
    url = "postgresql://ann:cAnArY@db/jobs"
    shown = formatter.format(record("cannot use %s", url, exc_info=raised(url)))
    assert "cAnArY" not in re.sub(r"url = .*", "", shown)


def test_arguments_that_do_not_fit_the_message_are_still_a_line() -> None:
    assert "'%d steps' cannot be formatted: TypeError" in TextFormatter().format(record("%d steps", "many"))


def log_to(handler: logging.Handler, *messages: str) -> None:
    handler.setFormatter(TextFormatter())
    for message in messages:
        handler.handle(record(message))


def test_a_file_is_created_with_its_directory_and_again_after_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "dispatcher.log"
    handler = FileHandler(path)
    log_to(handler, "one")
    path.rename(tmp_path / "old.log")
    log_to(handler, "two")
    assert (tmp_path / "old.log").read_text().endswith(" INFO one\n")
    assert path.read_text().endswith(" INFO two\n")


def test_a_full_disk_loses_records_and_the_log_says_how_many(tmp_path: Path) -> None:
    """The limit on the size of a file stands in for the disk."""
    path = tmp_path / "dispatcher.log"
    handler = FileHandler(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        log_to(handler, "lost", "lost as well")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    log_to(handler, "written")
    notice, line = path.read_text().splitlines()
    assert notice.endswith("WARNING 2 earlier log records could not be written and are lost")
    assert line.endswith(" INFO written")


@pytest.mark.parametrize("stream", [None, open(os.devnull)], ids=["none", "closed"])  # noqa: SIM115
def test_a_closed_stderr_is_no_error(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if stream is not None:
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    log_to(StderrHandler(), "into the void")
