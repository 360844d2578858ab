"""The features that follow the changes of their steps: column `belongs_to`."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

BelongsTo: TypeAlias = Literal["workflow", "schedule", "process"]

WORKFLOW: Final = "workflow"  # a step of a declared workflow, at any depth
SCHEDULE: Final = "schedule"  # the execution of a cron job
PROCESS: Final = "process"  # a task of a main process
