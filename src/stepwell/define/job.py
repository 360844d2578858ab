"""The class form of a job: `compute` and the hooks around it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from stepwell.define.drafts import NewStep
    from stepwell.define.outcomes import When
    from stepwell.model.step import StepRef
    from stepwell.run.running import RunningStep

GUARDS: Final = ("start_or_stop", "start_or_fail", "start_or_skip", "start_or_retry")
LATER_STAGES: Final = ("double_check", "confirm_or_retry", "complete")
_HOOKS: Final = ("prepare", *GUARDS, *LATER_STAGES, "retry_exception", "ignore_exception", "resolve_exception")


class Job:
    """Code that runs as a step. A subclass defines `compute` and the hooks that it needs; every hook may be `async`.

    The arguments of the step are the arguments of the constructor:

    >>> from dataclasses import dataclass
    >>> from stepwell import Job, Stepwell
    >>> app = Stepwell("sqlite://")
    >>> @app.job(retries=5)
    ... @dataclass
    ... class SyncAccount(Job):
    ...     account: int
    ...
    ...     def start_or_skip(self) -> bool:
    ...         return self.account != 13
    ...
    ...     def compute(self) -> dict[str, int]:
    ...         return {"account": self.account, "rows": 7}
    >>> seven, thirteen = SyncAccount.enqueue(7), SyncAccount.enqueue(13)
    >>> app.run_until_idle()
    2
    >>> seven.result(), app.step(thirteen).state.value
    ({'account': 7, 'rows': 7}, 'Skipped')

    The order of a run: prepare → the guards `start_or_stop`, `start_or_fail`, `start_or_skip`, `start_or_retry` →
    compute → double_check → confirm_or_retry → complete. Once compute is done it never runs again: a later attempt
    starts at the stage that asked for it.
    """

    step: RunningStep  # set before `prepare`

    # hooks ----------------------------------------------------------------------------------------------

    def prepare(self) -> Any:
        """Runs first, in every attempt."""

    def start_or_stop(self) -> Any:
        """False: end as Stopped."""
        return True

    def start_or_fail(self) -> Any:
        """False: end as Failed, without a retry."""
        return True

    def start_or_skip(self) -> Any:
        """False: end as Skipped."""
        return True

    def start_or_retry(self) -> Any:
        """False: retry later; spends a retry."""
        return True

    def compute(self) -> Any:
        """The work. What it returns is the step's response."""
        raise NotImplementedError(f"{type(self).__name__} has no compute")

    def double_check(self) -> Any:
        """Verify the work. False: check again after the backoff; False again: end as Failed."""
        return True

    def confirm_or_retry(self) -> Any:
        """Confirm that the work has taken effect. False: check again later; spends a retry."""
        return True

    def complete(self) -> Any:
        """Runs last; then the own code is done."""

    def retry_exception(self, error: BaseException) -> Any:
        """True: retry while retries are left. False: do not retry. None: follow the job's settings."""
        return None

    def ignore_exception(self, error: BaseException) -> Any:
        """True: the own code counts as done; the error is stored. Called for errors that are not retried."""
        return False

    def resolve_exception(self, error: BaseException) -> Any:
        """Repair the damage. True: the own code counts as done. Called for errors neither retried nor ignored."""
        return False

    # for use in hooks -----------------------------------------------------------------------------------

    def retry(
        self, message: str | When = "retry", *, in_: float | timedelta | None = None, at: datetime | None = None
    ) -> NoReturn:
        """End this run and retry the step: spends a retry. `retry(60)` is `retry(in_=60)`."""
        self.step.retry(message, in_=in_, at=at)

    def reschedule(
        self, message: str | When = "reschedule", *, in_: float | timedelta | None = None, at: datetime | None = None
    ) -> NoReturn:
        """End this run and run again later: throttled, spends nothing. `reschedule(60)` is `reschedule(in_=60)`."""
        self.step.reschedule(message, in_=in_, at=at)

    def stop(self, reason: str = "") -> NoReturn:
        """End as Stopped."""
        self.step.stop(reason)

    def skip(self, reason: str = "") -> NoReturn:
        """End as Skipped."""
        self.step.skip(reason)

    def fail(self, error: str | BaseException = "failed") -> NoReturn:
        """End as Failed, without a retry."""
        self.step.fail(error)

    def handle_exception(self, error: BaseException) -> NoReturn:
        """End the run as if this error had been raised."""
        raise error

    def children(self, *steps: NewStep | Iterable[NewStep]) -> list[StepRef]:
        """Create a child block: see `RunningStep.children`."""
        return self.step.children(*steps)

    def checkpoint(self, data: Any) -> None:
        """Store data for the next attempt, which reads it from `self.step.checkpointed`."""
        self.step.checkpoint(data)

    def progress(self, done: float, total: float | None = None) -> None:
        """Report progress."""
        self.step.progress(done, total)

    def log(self, message: object, *, level: int | str = logging.INFO) -> None:
        """Add a line to the step's log; `level` is a level of `logging`, by number or by name."""
        self.step.log(message, level=level)

    # Aliases for users of the step dispatcher that Stepwell is based on.
    retry_job = retry
    report_and_fail = fail

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "handle" in cls.__dict__:
            raise TypeError(f"{cls.__name__}.handle: Stepwell controls the order of a run; define compute and hooks")


def hooks_of(kind: type[Job]) -> frozenset[str]:
    """The hooks that a class overrides."""
    return frozenset(name for name in _HOOKS if getattr(kind, name) is not getattr(Job, name))
