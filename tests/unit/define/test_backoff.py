"""How long a step waits before it is tried again."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell import Stepwell, StepwellError
from stepwell.define.backoff import CAP_SECONDS, LONGEST_SECONDS, exponential, retry_after, seconds_before
from stepwell.testing import ManualClock


class Busy(Exception):
    """As HTTP clients raise it: the server's answer is on the error."""

    def __init__(self, header: str | None = None, **attributes: Any) -> None:
        self.response = SimpleNamespace(headers={} if header is None else {"Retry-After": header})
        self.__dict__.update(attributes)


def test_the_default_doubles_from_two_seconds_up_to_thirty() -> None:
    most = [max(exponential(retry) for _ in range(300)) for retry in (1, 2, 3, 4, 5, 6, 50)]
    assert [round(figure, 0) for figure in most] == [2, 4, 8, 16, 30, 30, 30]


@given(st.integers(1, 10**9), st.integers())
def test_the_default_takes_off_at_most_half_by_chance(retry: int, seed: int) -> None:
    random.seed(seed)
    whole = min(CAP_SECONDS, 2.0 ** min(retry, 5))
    assert whole / 2 <= exponential(retry) <= whole


def test_two_steps_that_failed_together_do_not_come_back_together() -> None:
    assert len({exponential(3) for _ in range(20)}) == 20


@pytest.mark.parametrize(
    ("policy", "pauses"),
    [
        (5, [5.0] * 4),
        (0, [0.0] * 4),
        (0.005, [0.005] * 4),
        ([1, 10, 60], [1.0, 10.0, 60.0, 60.0]),
        ((0.25,), [0.25] * 4),
        (lambda retry, error: retry * 1.5, [1.5, 3.0, 4.5, 6.0]),
        (lambda retry: retry * 1.5, [1.5, 3.0, 4.5, 6.0]),
        (lambda *said: len(said), [2.0] * 4),
        (lambda retry, error: -1, [0.0] * 4),
        (lambda retry, error: 1e300, [LONGEST_SECONDS] * 4),
    ],
)
def test_a_policy_is_a_figure_a_list_or_a_function(policy: Any, pauses: list[float]) -> None:
    assert [seconds_before(retry, policy) for retry in (1, 2, 3, 4)] == pauses


def test_a_function_is_given_the_error() -> None:
    error = ValueError("slow")
    assert seconds_before(1, lambda retry, given: 9.0 if given is error else 1.0, error) == 9.0


@pytest.mark.parametrize("policy", [lambda retry, error: 1 / 0, lambda retry, error: None, lambda retry, error: "x"])
def test_a_function_that_does_not_give_seconds_leaves_the_usual_pause(policy: Callable[..., Any]) -> None:
    assert 1 <= seconds_before(1, policy) <= 2


@pytest.mark.parametrize(
    "policy",
    [[], -1, float("nan"), [1, -1], "10", [1, "2"], float("inf"), "", timedelta(1), lambda: 1, lambda a, b, c: 1],
)
def test_what_is_no_backoff_is_refused_when_the_job_is_defined(policy: Any) -> None:
    with Stepwell("sqlite://") as app, pytest.raises(StepwellError, match="backoff is"):
        app.job(backoff=policy)(lambda: None)


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (Busy("120"), 120.0),
        (Busy(" 2.5 "), 2.5),
        (Busy(retry_after=0.25), 0.25),
        (Busy(retry_after="3"), 3.0),
        (Busy("7", retry_after=1), 1.0),
        (Busy(retry_after=-5), 0.0),
        (Busy("soon"), None),
        (Busy(), None),
        (ValueError(), None),
        (Busy(response=None), None),
        (Busy(retry_after=object()), None),
    ],
)
def test_a_retry_after_header_is_obeyed(error: Exception, seconds: float | None) -> None:
    assert retry_after(error) == seconds
    expected = 60.0 if seconds is None else seconds
    assert seconds_before(1, 60, error) == expected


def test_a_server_may_name_a_moment() -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    for error in (Busy(format_datetime(moment, usegmt=True)), Busy(retry_after=moment)):
        assert 3590 < (retry_after(error) or 0) <= 3600
    assert retry_after(Busy(format_datetime(moment - timedelta(days=1), usegmt=True))) == 0.0


def test_a_malformed_retry_after_header_is_ignored() -> None:
    assert 1 <= seconds_before(1, None, Busy(retry_after=float("nan"))) <= 2
    assert seconds_before(1, None, Busy(retry_after=float("inf"))) == LONGEST_SECONDS


def test_milliseconds_count_and_the_waiting_step_says_until_when() -> None:
    clock = ManualClock()
    with Stepwell("sqlite://", clock=clock) as app:

        @app.job(backoff=[0.001, 0.0625])
        def always() -> None:
            raise OSError("no")

        handle = always.enqueue()
        for pause in (0.001, 0.0625, 0.0625):
            app.run_until_idle()
            assert handle.step().dispatch_after == clock.now() + timedelta(seconds=pause)
            clock.advance(pause)
        app.run_until_idle()
        assert handle.step().state == "Failed"
