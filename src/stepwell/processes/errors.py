"""What can go wrong with a queueing."""

from __future__ import annotations

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
        self.task_class = task_class
        self.part = part
        self.state = state
        self.step_id = step_id
