"""An app with tasks whose behaviour a test chooses, and ways to bring a task into every state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stepwell import NOT_COMPLETED, Stepwell
from stepwell.model.claimed import Claim
from stepwell.model.task_states import TaskState
from stepwell.processes.processes import MainProcesses
from stepwell.run.inline import InlineRunner
from stepwell.testing import ManualClock

Behaviour = Callable[[], Any]

NAMES = ("dependee", "dependent", "other")
MAIN_PROCESSES = {
    "pair": {"tasks": [{"class": "dependent", "depend_on": "dependee"}, {"class": "dependee"}]},
    "dependee": {"name": "dependee alone", "tasks": [{"class": "dependee"}]},
    "dependent": {"name": "d", "tasks": [{"class": "dependent", "depend_on": "dependee"}]},
    "both": {"tasks": [{"class": "other"}, {"class": "dependee"}]},
    "free": {"tasks": [{"class": "dependent"}, {"class": "other"}]},  # the same task without its dependency
    "bound": {"tasks": [{"class": "dependent", "depend_on": "dependee"}, {"class": "other"}]},
}


def refuse() -> None:
    raise ValueError("no")


class Tasks:
    """Jobs `dependee`, `dependent` and `other`; each calls its behaviour, if it has one, and returns its result."""

    def __init__(self, app: Stepwell, processes: dict[str, Any] | None = None, **settings: Any) -> None:
        self.app = app
        self.does: dict[str, Behaviour] = {}
        self.runs: list[str] = []
        for name in NAMES:
            app.job(name=name)(self._code(name))
        task = {"timeout": 60, "cooldown": 5}
        self.processes: MainProcesses = app.main_processes.configure(
            {
                "main_processes": processes or MAIN_PROCESSES,
                "tasks": {name: {"class": name, **task} for name in NAMES},
                **settings,
            }
        )

    def _code(self, name: str) -> Callable[[], Any]:
        def code() -> Any:
            self.runs.append(name)
            return self.does[name]() if name in self.does else None

        return code

    def not_completed(self, name: str) -> None:
        self.does[name] = lambda: NOT_COMPLETED

    def states(self) -> dict[str, TaskState]:
        return {task.task_class: task.state for task in self.processes.tasks()}

    def step_of(self, name: str) -> int:
        (found,) = [task.step_id for task in self.processes.tasks() if task.task_class == name]
        assert found is not None
        return found

    def reason_of(self, name: str) -> str | None:
        return self.app.step(self.step_of(name)).reason

    def settle(self, clock: ManualClock) -> None:
        """Beat until nothing changes any more."""
        for _ in range(5):
            self.app.run_until_idle()
            self.processes.reschedule()
            clock.advance(10)

    @contextmanager
    def worker(self) -> Iterator[InlineRunner]:
        """A live worker that runs nothing by itself, for tests that claim and finish explicitly."""
        runner = self.app.inline_runner()
        try:
            yield runner
        finally:
            runner.close()

    def claim(self, runner: InlineRunner, *names: str) -> list[Claim]:
        """Dispatch and claim until these tasks are running under this worker; returns their claims in that order."""
        claims: dict[str, Claim] = {}
        for _ in range(100):
            self.app.dispatcher().run_until_quiet()
            claims |= {str(claim.step.label): claim for claim in runner.claim(100)}
            if claims.keys() >= set(names):
                return [claims[name] for name in names]
        raise AssertionError(f"not claimed: {set(names) - claims.keys()}")

    @contextmanager
    def brought_to(self, state: TaskState, name: str, main_process: str, clock: ManualClock) -> Iterator[None]:
        """A queued main process, all of whose tasks have ended except this one, which is in the given state."""
        self.does.pop(name, None)
        if state == "not_completed":
            self.not_completed(name)
        elif state == "error":
            self.does[name] = refuse
        self.processes.queue(main_process)
        if state in ("completed", "not_completed", "error"):
            self.app.run_until_idle()
        with self.worker() as runner:
            if state in ("running", "dead"):
                self.claim(runner, name)
            if state == "dead":
                clock.advance(3_600)
            assert self.states()[name] == state
            yield
