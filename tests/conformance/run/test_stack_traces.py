"""The stack trace of a failed step begins in the user's code: the frames that led there are of no use to the reader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stepwell
from stepwell import Job, Stepwell

pytestmark = pytest.mark.one_database

OURS = str(Path(stepwell.__file__).parent)
HERE = Path(__file__).name


def deep() -> None:
    raise ValueError("deep down")


def plain() -> None:
    deep()


async def on_a_loop() -> None:
    await asyncio.sleep(0)
    deep()


def with_a_cause() -> None:
    try:
        deep()
    except ValueError as error:
        raise KeyError("translated") from error


def with_a_context() -> None:
    try:
        deep()
    except ValueError:
        deep()


def in_a_group() -> None:
    errors = []
    for _ in range(2):
        try:
            deep()
        except ValueError as error:
            errors.append(error)
    raise ExceptionGroup("both", errors)


class InAHook(Job):
    def prepare(self) -> None:
        deep()

    def compute(self) -> None: ...


def stack_of(app: Stepwell, code: Callable[..., Any]) -> str:
    job = app.job(retries=0, name="job")(code)
    step = job.enqueue()
    app.run_until_idle()
    stack = app.step(step).error_stack_trace
    assert stack is not None
    return stack


@pytest.mark.parametrize("code", [plain, on_a_loop, with_a_cause, with_a_context, in_a_group, InAHook])
def test_a_stack_trace_begins_at_the_first_frame_of_the_job(app: Stepwell, code: Callable[..., Any]) -> None:
    stack = stack_of(app, code)
    assert OURS not in stack
    assert "in deep" in stack
    frames = [line for line in stack.splitlines() if line.lstrip(" |").startswith("File ")]
    assert HERE in frames[0]


def test_a_stack_trace_has_the_errors_behind_it(app: Stepwell) -> None:
    stack = stack_of(app, with_a_cause)
    assert "ValueError: deep down" in stack
    assert stack.endswith("KeyError: 'translated'\n")


def test_frames_of_stepwell_below_those_of_the_job_are_kept(app: Stepwell) -> None:
    def asks() -> None:
        app.step(4711)

    stack = stack_of(app, asks)
    first, *_ = [line for line in stack.splitlines() if line.startswith("  File ")]
    assert HERE in first
    assert "reader.py" in stack
