"""How long a step waits before a retry."""

from __future__ import annotations

import inspect
import logging
import math
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

logger = logging.getLogger("stepwell.run")

BackoffFunction: TypeAlias = Callable[[int, BaseException | None], float] | Callable[[int], float]
# Seconds; one number per retry (the last one repeats); or a function of the number of the retry (and the error).
Backoff: TypeAlias = float | Sequence[float] | BackoffFunction

CAP_SECONDS: Final = 30.0
LONGEST_SECONDS: Final = 366 * 86_400.0


def exponential(retry: int, error: BaseException | None = None) -> float:
    """2, 4, 8, 16, then 30 seconds, each reduced by a random jitter of up to half.

    >>> all(2.0**n / 2 <= exponential(n) <= 2.0**n for n in (1, 2, 3, 4)), exponential(1_000) <= 30
    (True, True)
    """
    return min(CAP_SECONDS, 2.0 ** min(retry, 10)) * random.uniform(0.5, 1.0)


def seconds_before(retry: int, policy: Backoff | None, error: BaseException | None = None) -> float:
    """The delay before this retry (the first is 1). A `Retry-After` from a server takes precedence.

    >>> seconds_before(1, 5), seconds_before(9, [1, 10, 60]), seconds_before(3, lambda n, error: n / 1000)
    (5.0, 60.0, 0.003)
    >>> seconds_before(3, lambda n: 2**n)
    8.0
    """
    requested = None if error is None else retry_after(error)
    if requested is not None:
        seconds = requested
    elif policy is None:
        seconds = exponential(retry)
    elif callable(policy):
        seconds = _call(policy, retry, error)
    elif isinstance(policy, Sequence):
        seconds = float(policy[min(retry, len(policy)) - 1])
    else:
        seconds = float(policy)
    return exponential(retry) if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_SECONDS)


def _call(policy: Callable[..., float], retry: int, error: BaseException | None) -> float:
    """NaN if the function raises: that must neither hide the step's own error nor cost it the retry."""
    try:
        return float(policy(retry, error) if _takes(policy, 2) else policy(retry))
    except Exception:
        logger.exception("the backoff function raised for retry %s; using the default backoff", retry)
        return math.nan


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with this many arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C, without a signature
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def problem_of_backoff(policy: Any) -> str | None:
    """What is wrong with a backoff, or None: reported when the job is defined, not when it first fails."""
    if policy is None:
        return None
    if callable(policy):
        if inspect.iscoroutinefunction(policy):
            return f"backoff is {policy!r}, which is async: pass a sync function"
        if not (_takes(policy, 1) or _takes(policy, 2)):
            return f"backoff is {policy!r}, not a function of the number of the retry (and the error)"
        return None
    figures: Sequence[Any] = policy if isinstance(policy, Sequence) else [policy]
    if figures and all(isinstance(figure, int | float) and 0 <= figure <= LONGEST_SECONDS for figure in figures):
        return None
    return f"backoff is {policy!r}, not seconds, a list of seconds or a function that returns seconds"


def retry_after(error: BaseException) -> float | None:
    """The delay that a server asked for: `retry_after` of the error, or the header of its `response` (requests, httpx).

    >>> class Busy(Exception):
    ...     retry_after = 2.5
    >>> retry_after(Busy()), retry_after(ValueError())
    (2.5, None)
    """
    try:
        requested: Any = getattr(error, "retry_after", None)
        if requested is None:
            requested = error.response.headers.get("Retry-After")  # type: ignore[attr-defined]
        if isinstance(requested, datetime):
            return max(0.0, (requested - datetime.now(requested.tzinfo)).total_seconds())
        if isinstance(requested, str) and not requested.strip().replace(".", "", 1).isdigit():
            from email.utils import parsedate_to_datetime  # a date in a header is rare, and its parser slow to import

            return max(0.0, (parsedate_to_datetime(requested) - datetime.now(UTC)).total_seconds())
        return None if requested is None or math.isnan(seconds := float(requested)) else max(0.0, seconds)
    except Exception:  # a third-party error: these attributes may be anything
        return None
