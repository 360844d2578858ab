"""How an upstream step ended, for steps that run whatever became of it."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from stepwell.model.states import CONCLUDED, State

T = TypeVar("T")


class Outcome(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The end of an upstream step: its state, its result if it completed, its error if it did not conclude.

    Every data input of a step with `trigger="any_concluded"` or `"all_ended"` is one:

    >>> def report(payment: Outcome[int]) -> str:
    ...     return f"paid {payment.result}" if payment.completed else f"{payment.state}: {payment.error}"
    >>> report(Outcome(state=State.COMPLETED, result=7))
    'paid 7'
    >>> report(Outcome(state=State.FAILED, error="card declined"))
    'Failed: card declined'

    Under `any_concluded`, an upstream step may not have ended yet. The error of a NotRunnable step names the failure
    that it goes back to.
    """

    state: State
    result: T | None = None
    error: str | None = None

    @property
    def completed(self) -> bool:
        return self.state is State.COMPLETED

    @property
    def concluded(self) -> bool:
        """Completed or Skipped."""
        return self.state in CONCLUDED
