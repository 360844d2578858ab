"""Which step the calling code runs for, and which steps an app runs in this process."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final

from stepwell.define.drafts import NewStep
from stepwell.enqueue.place import names_others
from stepwell.model.errors import StepwellError
from stepwell.model.ids import Uuid7Generator
from stepwell.run.running import RunningStep
from stepwell.store import Database

_running: Final[ContextVar[RunningStep]] = ContextVar("stepwell_running_step")


def current_step() -> RunningStep:
    """The step that the calling code runs for."""
    step = running_step()
    if step is None:
        raise StepwellError("current_step() is for code that runs as a step")
    return step


def running_step() -> RunningStep | None:
    """The same; None outside of a run."""
    return _running.get(None)


class RunningSteps:
    """The runs of one app in this process.

    A thread that a job starts has no context of its own, so it cannot know which run it belongs to. Code that uses the
    app to create children of a step finds the run of that step here.
    """

    __slots__ = ("_steps", "database", "uuids")

    def __init__(self, database: Database, uuids: Uuid7Generator) -> None:
        self.database = database
        self.uuids = uuids  # of their children, which have them before they are written
        self._steps: dict[int, RunningStep] = {}  # by identity: two runs may have the same step, one of them lost

    def add(self, step: RunningStep) -> None:
        step.running_steps = self
        self._steps[id(step)] = step

    def remove(self, step: RunningStep) -> None:
        del self._steps[id(step)]

    def parent_of(self, drafts: Sequence[NewStep]) -> RunningStep | None:
        """The run that these are part of, because they are to stand below its step.

        First the run of the calling code, which may be one of another app on the same database.
        """
        if not any(map(names_others, drafts)):
            return None
        here = running_step()
        for step in [*([] if here is None else [here]), *self._steps.values()]:
            if step.is_parent_of(drafts, self.database):
                return step
        return None

    def is_kept_by_caller(self, uuid: str) -> bool:
        """Whether the calling code runs for a step that keeps this one until it has ended."""
        here = running_step()
        return here is not None and here.keeps(uuid)


class entered:  # noqa: N801 - used as a word: `with entered(steps, step)`. Not a generator: it is part of every run.
    """While the code of a step runs."""

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
