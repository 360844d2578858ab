"""What the tests of jobs share: a job class whose hooks are given by the test and write down that they ran."""

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

    What a hook is given: a value to return, an exception to raise, a function of the job (and the error) to call, or a
    list of these, one for each call (the last one stays).
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

    def _hook(self, name: str, said: Any) -> Callable[..., Any]:
        def hook(job: Job, *error: BaseException) -> Any:
            self.calls.append(name)
            count = self._counts[name] = self._counts.get(name, 0) + 1
            word = said[min(count, len(said)) - 1] if isinstance(said, list) else said
            if isinstance(word, BaseException) or (isinstance(word, type) and issubclass(word, BaseException)):
                raise word
            return word(job, *error) if callable(word) else word

        return hook

    def run(self, **options: Any) -> Step:
        """Create one step of the job and run it until it ends, moving the clock past every pause."""
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
        """What the history says about each attempt that was sent back or ended."""
        assert self.ref is not None
        changes = self.app.history(self.ref)
        return [change.error for change in changes if change.from_state == "Running"]

    @property
    def reasons(self) -> list[str | None]:
        assert self.ref is not None
        return [change.reason for change in self.app.history(self.ref) if change.from_state == "Running"]


def settle(app: Stepwell, clock: ManualClock, rounds: int = 200) -> int:
    """Run everything until nothing is due any more, however far in the future; returns the runs."""
    runs = 0
    for _ in range(rounds):
        runs += app.run_until_idle()
        waiting = [step.dispatch_after for step in app.steps(state="Pending", limit=1_000) if step.dispatch_after]
        later = [moment for moment in waiting if moment > clock.now()]
        if not later:
            return runs
        clock.advance((min(later) - clock.now()).total_seconds())
    raise AssertionError("the steps never came to rest")


def below(app: Stepwell, parent: StepRef | Step) -> list[Step]:
    """The children of a step, oldest first."""
    return [node.step for node in app.tree(parent).children]


def names(steps: Sequence[Step]) -> list[str]:
    return [step.name for step in steps]
