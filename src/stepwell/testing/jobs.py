"""A job whose arguments choose how it behaves; the tests of the engine use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepwell.define.definition import JobDefinition
from stepwell.define.drafts import NewStep
from stepwell.define.outcomes import Permanent, Reschedule, Retry, Skip, Stop
from stepwell.run.current import current_step

if TYPE_CHECKING:
    from stepwell.app import Stepwell


def behave(app: Stepwell, action: str = "behave") -> JobDefinition[..., Any]:
    """Register the job with an app.

    `outcome` is one of ok, fail, raise, retry, stop, skip, throttle, sleep, or a list of them, one per attempt (the
    last one repeats). `spawn` lists children: each is a dict of this job's own arguments, and `index`, `type` and
    `label` for the step. Like all children that a job creates they are written when compute ends, so a run that raises
    creates none. A step that already has children creates no more.
    """

    @app.job(name=action)
    def job(
        outcome: str | Sequence[str] = "ok",
        result: Any = None,
        seconds: float = 1.0,
        spawn: Sequence[dict[str, Any]] = (),
    ) -> Any:
        step = current_step()
        if spawn and not step.has_children:
            app.enqueue_many([_child(child, step.id, action) for child in spawn])
        if not isinstance(outcome, str):
            outcome = outcome[min(step.attempts, len(outcome)) - 1]
        return _do(app, outcome, result, seconds)

    return job


def _child(child: dict[str, Any], parent: int, action: str) -> NewStep:
    arguments = dict(child)
    place = {name: arguments.pop(name) for name in ("index", "type", "label") if name in arguments}
    return NewStep(action=action, arguments=arguments, parent=parent, **place)


def _do(app: Stepwell, outcome: str, result: Any, seconds: float) -> Any:
    match outcome:
        case "ok":
            return result
        case "fail":
            raise Permanent("told to fail")
        case "raise":
            raise RuntimeError("told to raise")
        case "retry":
            raise Retry("told to retry", in_=seconds)
        case "stop":
            raise Stop("told to stop")
        case "skip":
            raise Skip("told to skip")
        case "throttle":
            raise Reschedule(in_=seconds)
        case "sleep":
            app.clock.sleep(seconds)
            return result
    raise ValueError(f"unknown outcome {outcome!r}")
