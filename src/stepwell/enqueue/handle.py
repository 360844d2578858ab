"""What `enqueue` and `app.handle` return: the step's identity, and ways to wait for its end and to act on it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from stepwell.model.errors import StepDidNotConclude, StepNotFound, StepTimeout, StepwellError
from stepwell.model.states import CONCLUDED, State
from stepwell.model.step import Retried, Step, StepRef

if TYPE_CHECKING:
    from stepwell.app.enqueuing import Enqueuing
    from stepwell.define.definition import JobDefinition

R = TypeVar("R")

# Each poll is a read by primary key; the interval grows from the first number to the second.
POLL_SECONDS: Final = (0.001, 0.1)


class Handle(StepRef, Generic[R]):
    """A step of an app, from any process.

    `job` is that of the step, if the app has it: it gives the result its type. Without it the result is as stored, in
    JSON's types.
    """

    __slots__ = ("_app", "_job")
    __setattr__ = object.__setattr__

    def __init__(self, ref: StepRef, app: Enqueuing, job: JobDefinition[..., R] | None) -> None:
        # Not by `super().__init__`, which takes twice as long: a bulk call makes thousands.
        self.id, self.uuid = ref.id, ref.uuid  # type: ignore[misc]
        self._app = app
        self._job = job

    def __reduce__(self) -> tuple[Any, ...]:
        return Handle, (StepRef(self.id, self.uuid), self._app, self._job)

    def step(self) -> Step:
        """The step as it is now."""
        return self._app.step(self)

    def transition_to(self, state: State, *, who: str, why: str | None = None) -> None:
        """Change its state by hand, as the transition table allows an operator; `who` and `why` are recorded."""
        self._app.transition_to(self, state, who=who, why=why)

    def cancel(self, *, who: str, why: str | None = None) -> None:
        """Cancel the step and, in the next ticks, its descendants; `who` and `why` are recorded."""
        self._app.cancel(self, who=who, why=why)

    def retry(self, *, who: str, why: str | None = None) -> Retried:
        """Return the step, and those that ended because of it, to Pending."""
        return self._app.retry(self, who=who, why=why)

    def result(self, timeout: float | None = None) -> R:
        """Wait for the end of the step and return its result, typed by the job's signature (None if it was skipped).

        Raises `StepDidNotConclude` if it failed or was cancelled, and `StepTimeout` if it has not ended in time.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        for pause in poll_intervals():
            if self._ended():
                break
            if deadline is not None and time.monotonic() >= deadline:
                break
            time.sleep(pause)
        return self._outcome(timeout)

    def __await__(self) -> Generator[Any, None, R]:
        return self._wait().__await__()

    async def _wait(self) -> R:
        import asyncio  # loaded by those who await

        for pause in poll_intervals():
            if await asyncio.to_thread(self._ended):
                break
            await asyncio.sleep(pause)
        return await asyncio.to_thread(self._outcome, None)

    def _ended(self) -> bool:
        if self._app.running_steps.is_unwritten_child_of_caller(self.uuid):
            raise StepwellError(
                f"step {self.uuid} is a child of the step that waits for it here, and cannot start before its parent's "
                "own code is done: use its result in a later child"
            )
        try:
            return self._app.reader.any_step(self).state.is_terminal
        except StepNotFound:
            return False  # a child that is written when compute of its parent ends

    def _outcome(self, timeout: float | None) -> R:
        try:
            step = self._app.reader.any_step(self)
        except StepNotFound:
            raise StepTimeout(
                f"step {self.uuid} does not exist after {timeout} s: it is written when the code that creates it ends"
            ) from None
        if not step.state.is_terminal:
            why = self._app.explain(step).summary
            raise StepTimeout(f"step {step.id} ({step.name}) has not ended in {timeout} s: it is {step.state}; {why}")
        if step.state not in CONCLUDED:
            why = (step.error_message if step.state is State.FAILED else None) or step.reason or "no reason given"
            raise StepDidNotConclude(f"step {step.id} ({step.name}) is {step.state}: {why}", step)
        try:
            result: R = step.response if self._job is None else self._job.signature.result(step.response)
        except (ValueError, TypeError) as error:
            raise StepwellError(
                f"step {step.id} ({step.name}) is {step.state}, but its result does not match the job's signature "
                f"({error}); app.step({step.id}).response is the stored value"
            ) from error
        return result


def poll_intervals() -> Iterator[float]:
    pause, longest = POLL_SECONDS
    while True:
        yield pause
        pause = min(pause * 1.2, longest)
