"""The step that the calling code belongs to, and the steps that an app runs in this process."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final

from stepwell.define.drafts import NewStep
from stepwell.define.registry import Registry
from stepwell.enqueue.place import names_others
from stepwell.model.errors import StepwellError
from stepwell.model.ids import Uuid7Generator
from stepwell.run.running import RunningStep
from stepwell.store import Database

_running: Final[ContextVar[RunningStep]] = ContextVar("stepwell_running_step")


def current_step() -> RunningStep:
    """The step that the calling code belongs to."""
    step = running_step()
    if step is None:
        raise StepwellError("current_step() was called outside of a running step")
    return step


def running_step() -> RunningStep | None:
    """The same, or None outside of a run."""
    return _running.get(None)


class RunningSteps:
    """The runs of one app in this process.

    Code finds its own run by a context variable. A thread that a job starts has an empty context, so when such code
    creates children of a step, the run of that step is found among those of the app that it uses.
    """

    __slots__ = ("_steps", "database", "jobs", "uuids")

    def __init__(self, database: Database, jobs: Registry, uuids: Uuid7Generator) -> None:
        self.database = database
        self.jobs = jobs
        self.uuids = uuids  # for their children, which get one before they are written
        self._steps: dict[int, RunningStep] = {}  # by identity: two runs may be of the same step, one without its lease

    def add(self, step: RunningStep) -> None:
        step.running_steps = self
        self._steps[id(step)] = step

    def remove(self, step: RunningStep) -> None:
        del self._steps[id(step)]

    def only(self) -> RunningStep | None:
        """The run of this process, if there is exactly one."""
        runs = [*self._steps.values()]
        return runs[0] if len(runs) == 1 else None

    def parent_of(self, drafts: Sequence[NewStep]) -> RunningStep | None:
        """The run that these drafts are part of, because they belong below its step.

        The run of the calling code is tried first.
        """
        if not any(map(names_others, drafts)):
            return None
        candidates = [*self._steps.values()]
        if (here := running_step()) is not None:
            candidates.insert(0, here)
        return next((step for step in candidates if step.is_parent_of(drafts, self.database)), None)

    def is_unwritten_child_of_caller(self, uuid: str) -> bool:
        """Whether the step is a child of the running step that calls this, and not written yet."""
        here = running_step()
        return here is not None and here.has_unwritten_child(uuid)


class entered:  # noqa: N801 - reads as `with entered(steps, step)`. Not a generator: it is on the path of every run.
    """Makes a step the current one while its code runs."""

    __slots__ = ("_step", "_steps", "_token")

    def __init__(self, steps: RunningSteps, step: RunningStep) -> None:
        self._steps = steps
        self._step = step

    def __enter__(self) -> None:
        self._token = _running.set(self._step)
        self._steps.add(self._step)

    def __exit__(self, *error: object) -> None:
        self._steps.remove(self._step)
        _running.reset(self._token)
