"""Shared by the tests of jobs: a job class whose hooks are scripted by the test and recorded when they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepwell import Job, Step, StepRef, Stepwell
from stepwell.testing import ManualClock

HOOKS = (
    "prepare", "start_or_stop", "start_or_fail", "start_or_skip", "start_or_retry", "compute", "double_check",
    "confirm_or_retry", "complete", "retry_exception", "ignore_exception", "resolve_exception",
)  # fmt: skip


class Script:
    """One job, the order in which its hooks were called, and a way to run it to its end.

    The script of a hook: a value to return, an exception to raise, a function of the job (and the error) to call, or a
    list of these, one for each call (the last one repeats).
    """

    def __init__(
        self, app: Stepwell, clock: ManualClock, settings: dict[str, Any] | None = None, /, **hooks: Any
    ) -> None:
        self.app = app
        self.clock = clock
        self.calls: list[str] = []
        self._counts: dict[str, int] = {}
        body = {name: self._hook(name, hooks.pop(name)) for name in HOOKS if name in hooks}
        assert not hooks, f"no such hooks: {hooks}"
        body.setdefault("compute", self._hook("compute", None))
        self.job = app.job(**{"name": "script", "backoff": 1, **(settings or {})})(type("Scripted", (Job,), body))
        self.ref: StepRef | None = None

    def _hook(self, name: str, script: Any) -> Callable[..., Any]:
        def hook(job: Job, *error: BaseException) -> Any:
            self.calls.append(name)
            count = self._counts[name] = self._counts.get(name, 0) + 1
            item = script[min(count, len(script)) - 1] if isinstance(script, list) else script
            if isinstance(item, BaseException) or (isinstance(item, type) and issubclass(item, BaseException)):
                raise item
            return item(job, *error) if callable(item) else item

        return hook

    def run(self, **options: Any) -> Step:
        """Create one step of the job and run it until it ends, advancing the clock past every delay."""
        self.ref = self.job.options(**options).enqueue()
        return self.settle()

    def settle(self) -> Step:
        settle(self.app, self.clock)
        return self.step

    @property
    def step(self) -> Step:
        assert self.ref is not None
        return self.app.step(self.ref)

    @property
    def errors(self) -> list[str | None]:
        """The errors in the history, one for each attempt that returned to Pending or ended."""
        assert self.ref is not None
        changes = self.app.history(self.ref)
        return [change.error for change in changes if change.from_state == "Running"]

    @property
    def reasons(self) -> list[str | None]:
        assert self.ref is not None
        return [change.reason for change in self.app.history(self.ref) if change.from_state == "Running"]


def settle(app: Stepwell, clock: ManualClock, rounds: int = 200) -> int:
    """Run everything, including what is due in the future; returns the number of runs."""
    runs = 0
    for _ in range(rounds):
        runs += app.run_until_idle()
        waiting = [step.dispatch_after for step in app.steps(state="Pending", limit=1_000) if step.dispatch_after]
        later = [moment for moment in waiting if moment > clock.now()]
        if not later:
            return runs
        clock.advance((min(later) - clock.now()).total_seconds())
    raise AssertionError("steps were still due after the last round")


def below(app: Stepwell, parent: StepRef | Step) -> list[Step]:
    """The children of a step, oldest first."""
    return [node.step for node in app.tree(parent).children]


def names(steps: Sequence[Step]) -> list[str]:
    return [step.name for step in steps]
