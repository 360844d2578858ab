"""A job whose arguments choose how it behaves."""

from __future__ import annotations

import builtins
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from stepwell.define import outcomes
from stepwell.define.definition import JobDefinition
from stepwell.define.drafts import NewStep
from stepwell.define.outcomes import NOT_COMPLETED, Permanent, Reschedule, Retry, Skip, Stop
from stepwell.model.clock import Clock
from stepwell.model.errors import StepwellError
from stepwell.run.current import current_step
from stepwell.run.running import RunningStep
from stepwell.store import Database
from stepwell.testing.clock import ManualClock
from stepwell.testing.crash_point import may_kill

if TYPE_CHECKING:
    from stepwell.app import Stepwell


def behave(app: Stepwell, action: str = "behave") -> JobDefinition[..., Any]:
    """Register the job with an app. Its arguments:

    - `outcome`: ok, fail, raise, retry, stop, skip, throttle, not_completed, sleep, hang, exit or kill; or a list of
      them, one for each attempt (the last one repeats).
    - `times`: the outcome applies to this many attempts; after that, the job succeeds.
    - `result`: what it returns.
    - `error`, `message`: what raise raises: the name of a built-in exception or of one of `stepwell`.
    - `seconds`: for retry, throttle and sleep.
    - `checkpoint`: data that it saves before its outcome.
    - `spawn`: children. Each is a dict of this job's own arguments, and `index`, `type` and `label` for the step. Like
      all children that a job creates they are written when compute ends, so a run that raises creates none. A step that
      already has children creates no more.

    sleep and hang use the clock of the app. With a manual clock, hang moves it past the timeout of the step.

    >>> from stepwell import Stepwell
    >>> app = Stepwell("sqlite://", clock=ManualClock())
    >>> job = behave(app)
    >>> handle = job.enqueue("raise", error="ConnectionError", times=2, result="sent")
    >>> from stepwell.testing import settle
    >>> settle(app), handle.result()
    (3, 'sent')
    """
    return app.job(name=action)(behavior)


def behavior(
    outcome: str | Sequence[str] = "ok",
    result: Any = None,
    seconds: float = 1.0,
    spawn: Sequence[dict[str, Any]] = (),
    times: int | None = None,
    error: str = "RuntimeError",
    message: str = "told to raise",
    checkpoint: Any = None,
) -> Any:
    """The code of `behave`; at the top level of its module, so that workflows can name it."""
    step = current_step()
    if spawn and not step.has_children:
        step.add_children([_child(child, step) for child in spawn])
    if checkpoint is not None:
        step.checkpoint(checkpoint)
    if not isinstance(outcome, str):
        outcome = outcome[min(step.attempts, len(outcome)) - 1]
    if times is not None and step.attempts > times:
        outcome = "ok"
    if outcome not in _ENDINGS:
        raise Permanent(f"unknown outcome {outcome!r}; valid outcomes: {', '.join(_ENDINGS)}")
    if outcome == "raise":
        raise _exception(error)(message)
    returned = _ENDINGS[outcome](step, seconds)
    return result if returned is None else returned


def _child(child: dict[str, Any], parent: RunningStep) -> NewStep:
    arguments = dict(child)
    place = {name: arguments.pop(name) for name in ("index", "type", "label") if name in arguments}
    return NewStep(action=parent.action, arguments=arguments, parent=parent.id, **place)


def _exception(name: str) -> type[BaseException]:
    found = getattr(builtins, name, None) or getattr(outcomes, name, None)
    if not (isinstance(found, type) and issubclass(found, BaseException)):
        raise Permanent(f"error={name!r}: expected the name of a built-in exception, or of one that a job can raise")
    return found


def _fail(step: RunningStep, seconds: float) -> NoReturn:
    raise Permanent("told to fail")


def _retry(step: RunningStep, seconds: float) -> NoReturn:
    raise Retry("told to retry", in_=seconds)


def _stop(step: RunningStep, seconds: float) -> NoReturn:
    raise Stop("told to stop")


def _skip(step: RunningStep, seconds: float) -> NoReturn:
    raise Skip("told to skip")


def _throttle(step: RunningStep, seconds: float) -> NoReturn:
    raise Reschedule(in_=seconds)


def _sleep(step: RunningStep, seconds: float) -> None:
    _clock(step).sleep(seconds)


def _hang(step: RunningStep, seconds: float) -> None:
    clock = _clock(step)
    if not isinstance(clock, ManualClock):
        while True:
            clock.sleep(1.0)
    if not step.timeout:
        raise Permanent("a step without a timeout would hang forever: set its timeout")
    clock.advance(step.timeout + step.cooldown + 1.0)


def _exit(step: RunningStep, seconds: float) -> NoReturn:
    sys.exit(3)


def _kill(step: RunningStep, seconds: float) -> None:
    if multiprocessing.parent_process() is None and not may_kill(_database(step)):
        raise Permanent(
            "kill would end the process of the test itself; run the step with a worker of executor='process', or under "
            "crash_everywhere(processes=True)"
        )
    os.kill(os.getpid(), signal.SIGKILL)


def _clock(step: RunningStep) -> Clock:
    return _database(step).clock


def _database(step: RunningStep) -> Database:
    if step.running_steps is None:
        raise StepwellError(f"step {step.id} does not run")
    return step.running_steps.database


_ENDINGS: Final[dict[str, Callable[[RunningStep, float], Any]]] = {
    "ok": lambda step, seconds: None,
    "fail": _fail,
    "raise": lambda step, seconds: None,  # see `behavior`: it needs the error
    "retry": _retry,
    "stop": _stop,
    "skip": _skip,
    "throttle": _throttle,
    "not_completed": lambda step, seconds: NOT_COMPLETED,
    "sleep": _sleep,
    "hang": _hang,
    "exit": _exit,
    "kill": _kill,
}
