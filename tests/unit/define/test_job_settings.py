"""Bad settings of a job are refused when it is defined: not at its first enqueue, nor at its first error."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from stepwell import InvalidStep, Job, NewStep, Stepwell, StepwellError


@pytest.fixture
def app() -> Iterator[Stepwell]:
    with Stepwell("sqlite://") as app:
        yield app


def work() -> None: ...


async def wait(error: BaseException) -> bool:
    return True


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("retry_on", ["OSError", "", None, 5, str, [OSError, "x"], [OSError()], OSError("no"), wait]),
        ("weight", [0, -1, "2", None, float("nan"), float("inf"), Decimal("NaN")]),
        ("max_running", [-1, 1.5, "2", True, 2**31]),
        ("retries", [-1, 1.5, "3", None, True, 2**31]),
        ("timeout", [-1, "30", None, float("nan"), float("inf"), 1e12]),
        ("cooldown", [-1, "30", None, float("nan")]),
        ("priority", ["urgent", 1, ""]),
        ("max_not_completed", [-1, 1.5, "3", None, True, 2**31]),
        ("backoff", [-1, "5", [], work, wait]),
        ("queue", ["", 5]),
        ("delay", ["soon", float("nan")]),
        ("concurrency_limit", [0]),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_its_name(app: Stepwell, setting: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(StepwellError, match=rf"job 'work' cannot be defined: {setting} (is|must be) "):
            app.job(**{setting: value})(work)
    assert app.jobs.actions() == frozenset()


def test_settings_that_make_sense_are_taken(app: Stepwell) -> None:
    good: dict[str, list[Any]] = {
        "retry_on": [OSError, KeyboardInterrupt, (), [OSError], {OSError, KeyError}, lambda error: True],
        "weight": [1, 2.5, Decimal("0.1"), Fraction(1, 3)],
        "max_running": [None, 0, 1],
        "retries": [0, 2**31 - 1],
        "timeout": [0, 0.5],
        "max_not_completed": [0, 1],
        "concurrency_key": ["one", lambda: "each"],
    }
    for setting, values in good.items():
        for number, value in enumerate(values):
            app.job(**{"name": f"{setting}-{number}", setting: value})(work)


def test_everything_wrong_with_a_job_is_reported_at_once(app: Stepwell) -> None:
    with pytest.raises(StepwellError) as refusal:
        app.job(retries=-1, weight=0, timeout=-5, retry_on="x", backoff=-1)(work)  # type: ignore[arg-type]
    assert all(word in str(refusal.value) for word in ("'work'", "retries", "weight", "timeout", "retry_on", "backoff"))


def test_a_class_without_compute_is_refused(app: Stepwell) -> None:
    class Empty(Job):
        def prepare(self) -> None: ...

    with pytest.raises(StepwellError, match=r"Empty: the class has no compute"):
        app.job()(Empty)


def test_what_is_no_code_is_refused(app: Stepwell) -> None:
    with pytest.raises(StepwellError, match=r"app\.job\(name='fetch'\)"):
        app.job("fetch")  # type: ignore[call-overload]
    with pytest.raises(StepwellError, match="5 cannot run as a step"):
        app.job(name="five")(5)  # type: ignore[call-overload]


def test_a_draft_takes_names_not_positions() -> None:
    with pytest.raises(InvalidStep, match="no positional arguments"):
        NewStep("mail", {"to": "ann"})  # type: ignore[call-arg]
