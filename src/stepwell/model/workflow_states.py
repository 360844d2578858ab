"""The states of a declared workflow. They follow from the states of its steps, but for `resolved_manually`."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class WorkflowState(StrEnum):
    """The state of a declared workflow."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETE = "complete"
    ERROR = "error"
    CANCELLED = "cancelled"
    RESOLVED_MANUALLY = "resolved_manually"


SETTLED: Final = frozenset(WorkflowState) - {WorkflowState.PENDING, WorkflowState.IN_PROGRESS}
