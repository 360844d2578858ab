"""A job's settings for errors, unfinished runs and its share of the workers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from stepwell.define.backoff import Backoff, problem_of_backoff
from stepwell.define.signature import is_coroutine
from stepwell.share.strategy import DEFAULT_WEIGHT, Weight

MAX_NOT_COMPLETED: Final = 20
RetryRule = type[BaseException] | Collection[type[BaseException]] | Callable[[BaseException], bool]


@dataclass(frozen=True, slots=True)
class Policy:
    """How the steps of a job are retried, and how many slots they get."""

    retry_on: RetryRule = (Exception,)
    backoff: Backoff | None = None
    max_not_completed: int = MAX_NOT_COMPLETED
    weight: Weight = DEFAULT_WEIGHT  # its share of the slots, for strategies that divide them
    max_running: int | None = None  # over all workers

    def problems(self) -> Iterator[str]:
        """Everything that is wrong with it: reported when the job is defined, not when it first fails."""
        if not _is_retry_rule(self.retry_on):
            yield f"retry_on is {self.retry_on!r}, not exception types or a sync function of the error"
        if (problem := problem_of_backoff(self.backoff)) is not None:
            yield problem
        if not _is_count(self.max_not_completed):
            yield f"max_not_completed is {self.max_not_completed!r}, not a number of runs of at least 0"
        if not _is_positive(self.weight):
            yield f"weight is {self.weight!r}, not a number above 0"
        if self.max_running is not None and not _is_count(self.max_running):
            yield f"max_running is {self.max_running!r}, not a whole number of at least 0 (0: none runs), nor None"

    def retries(self, error: BaseException) -> bool:
        """Whether this error should be retried.

        >>> Policy(retry_on=OSError).retries(TimeoutError()), Policy(retry_on=[OSError]).retries(KeyError())
        (True, False)
        >>> Policy(retry_on=lambda error: "later" in str(error)).retries(KeyError("try later"))
        True
        """
        rule = self.retry_on
        if not isinstance(rule, type | Collection):
            return bool(rule(error))
        kinds = (rule,) if isinstance(rule, type) else tuple(rule)
        # Exceptions that are no Exception normally end a program; in a job they are failures like any other.
        return isinstance(error, kinds) or (Exception in kinds and not isinstance(error, Exception))


def _is_retry_rule(rule: Any) -> bool:
    if isinstance(rule, type):
        return issubclass(rule, BaseException)
    if isinstance(rule, Collection):
        return not isinstance(rule, str) and all(
            isinstance(kind, type) and issubclass(kind, BaseException) for kind in rule
        )
    return callable(rule) and not is_coroutine(rule)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _is_positive(value: Any) -> bool:
    """Whether it is a finite number above 0."""
    try:
        return not isinstance(value, str) and Fraction(value) > 0
    except (TypeError, ValueError, OverflowError):  # not a number, or infinite
        return False
