"""Running everything that is enqueued, without waiting: the clock is moved to each moment at which something is due."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from stepwell.model.errors import StepwellError
from stepwell.testing.clock import ManualClock

if TYPE_CHECKING:
    from stepwell.app import Stepwell

# Far more than the retries of a test need, and reached in seconds by a job that always reschedules itself.
MAX_MOVES: Final = 1_000


def settle(app: Stepwell, *, within: float | timedelta | None = None) -> int:
    """Run until nothing is left to run or to wait for; returns the number of runs.

    Whenever nothing can run now, the clock moves to the next moment at which something is due: a delay or a backoff is
    over, a gate expires. With `within`, exactly this much time passes.

    >>> from stepwell import Stepwell
    >>> app = Stepwell("sqlite://", clock=ManualClock())
    >>> @app.job
    ... def greet() -> None: ...
    >>> _ = greet.options(delay=3600).enqueue()
    >>> settle(app, within=60), settle(app)
    (0, 1)
    """
    clock = manual_clock(app)
    limit = None if within is None else clock.now() + _duration(within)
    dispatcher = app.dispatcher()
    runs = app.run_until_idle()
    for _ in range(MAX_MOVES):
        due = dispatcher.next_due()
        if due is None or due <= clock.now() or (limit is not None and due > limit):
            if limit is not None and limit > clock.now():
                clock.move_to(limit)
            return runs
        clock.move_to(due)
        runs += app.run_until_idle()
    raise StepwellError(
        f"steps are still due after the clock was moved {MAX_MOVES} times, to {clock.now():%Y-%m-%d %H:%M:%S}; next: "
        f"{_next_steps(app)}. A job that always reschedules itself never settles: pass within="
    )


def manual_clock(app: Stepwell) -> ManualClock:
    """The clock of an app, if a test can move it."""
    if not isinstance(app.clock, ManualClock):
        raise StepwellError(
            f"the clock of this app is a {type(app.clock).__name__}, which cannot be moved; use a ManualClock: "
            "`with testing.bound(app, clock=clock)`, or the fixture `stepwell_bind`"
        )
    return app.clock


def _duration(within: float | timedelta) -> timedelta:
    return within if isinstance(within, timedelta) else timedelta(seconds=within)


def _next_steps(app: Stepwell) -> str:
    due = [(step.dispatch_after, step) for step in app.steps(state="Pending") if step.dispatch_after is not None]
    first = sorted(due, key=lambda pair: pair[0])[:3]
    return ", ".join(f"step {step.id} ({step.name})" for _, step in first) or "gates"
