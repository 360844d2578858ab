"""How long a step waits before it is tried again."""

from __future__ import annotations

import inspect
import logging
import math
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeAlias

logger = logging.getLogger("stepwell.run")

BackoffFunction: TypeAlias = Callable[[int, BaseException | None], float] | Callable[[int], float]
# Seconds; one figure for each retry (the last one stays); or a function of the number of the retry (and the error).
Backoff: TypeAlias = float | Sequence[float] | BackoffFunction

CAP_SECONDS: Final = 30.0
LONGEST_SECONDS: Final = 366 * 86_400.0


def exponential(retry: int, error: BaseException | None = None) -> float:
    """2, 4, 8, 16, then 30 seconds, each with up to half of it taken off by chance.

    >>> all(2.0**n / 2 <= exponential(n) <= 2.0**n for n in (1, 2, 3, 4)), exponential(1_000) <= 30
    (True, True)
    """
    return min(CAP_SECONDS, 2.0 ** min(retry, 10)) * random.uniform(0.5, 1.0)


def seconds_before(retry: int, policy: Backoff | None, error: BaseException | None = None) -> float:
    """The pause before this retry (the first is 1). A server that said when to retry knows best.

    >>> seconds_before(1, 5), seconds_before(9, [1, 10, 60]), seconds_before(3, lambda n, error: n / 1000)
    (5.0, 60.0, 0.003)
    >>> seconds_before(3, lambda n: 2**n)
    8.0
    """
    said = None if error is None else retry_after(error)
    if said is not None:
        seconds = said
    elif policy is None:
        seconds = exponential(retry)
    elif callable(policy):
        seconds = _asked(policy, retry, error)
    elif isinstance(policy, Sequence):
        seconds = float(policy[min(retry, len(policy)) - 1])
    else:
        seconds = float(policy)
    return exponential(retry) if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_SECONDS)


def _asked(policy: Callable[..., float], retry: int, error: BaseException | None) -> float:
    """The step has an error of its own already; one of its backoff must not hide that, nor cost it the retry."""
    try:
        return float(policy(retry, error) if _takes(policy, 2) else policy(retry))
    except Exception:
        logger.exception("the backoff for retry %s cannot be worked out; the usual one serves", retry)
        return math.nan


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with this many arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C, and silent about it
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def problem_of_backoff(policy: Any) -> str | None:
    """What is said against a backoff when the job is defined, not when it first fails; None if nothing."""
    if policy is None:
        return None
    if callable(policy):
        if inspect.iscoroutinefunction(policy):
            return f"backoff is {policy!r}, and nobody would await it: give a plain function"
        if not (_takes(policy, 1) or _takes(policy, 2)):
            return f"backoff is {policy!r}, not a function of the number of the retry (and the error)"
        return None
    figures: Sequence[Any] = policy if isinstance(policy, Sequence) else [policy]
    if figures and all(isinstance(figure, int | float) and 0 <= figure <= LONGEST_SECONDS for figure in figures):
        return None
    return f"backoff is {policy!r}, not seconds, a list of seconds or a function that gives seconds"


def retry_after(error: BaseException) -> float | None:
    """What a server asked for: a `retry_after` on the error, or the header of its `response` (requests, httpx).

    >>> class Busy(Exception):
    ...     retry_after = 2.5
    >>> retry_after(Busy()), retry_after(ValueError())
    (2.5, None)
    """
    try:
        said: Any = getattr(error, "retry_after", None)
        if said is None:
            said = error.response.headers.get("Retry-After")  # type: ignore[attr-defined]
        if isinstance(said, datetime):
            return max(0.0, (said - datetime.now(said.tzinfo)).total_seconds())
        if isinstance(said, str) and not said.strip().replace(".", "", 1).isdigit():
            return max(0.0, (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds())
        return None if said is None or math.isnan(seconds := float(said)) else max(0.0, seconds)
    except Exception:  # it is the error of somebody else's code: anything may be behind these names
        return None
