"""What can go wrong with a queueing."""

from __future__ import annotations

from functools import partial
from typing import Any

from stepwell.model.errors import StepwellError
from stepwell.model.task_states import TaskState


class QueueingError(StepwellError):
    """A main process that cannot be queued; nothing of it was written."""


class TaskStateError(QueueingError):
    """A task is in a state in which its main process cannot be queued: nothing was written, and a later queueing may
    succeed. `task_class`, `part`, `state` and `step_id` are those of the first such task.
    """

    def __init__(self, message: str, *, task_class: str, part: str, state: TaskState, step_id: int | None) -> None:
        super().__init__(message)
        self._message = message
        self.task_class = task_class
        self.part = part
        self.state = state
        self.step_id = step_id

    def __reduce__(self) -> tuple[Any, ...]:  # a job that queues may raise it in a slot's process
        facts: dict[str, Any] = {
            "task_class": self.task_class,
            "part": self.part,
            "state": self.state,
            "step_id": self.step_id,
        }
        return partial(TaskStateError, self._message, **facts), ()
