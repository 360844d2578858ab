"""What a configuration of main processes consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from stepwell.share.ranges import HashRange, Partition, UniqueId

PriorityStrategyName: TypeAlias = Literal["SortByDateCreated", "DivideTotalValueEqually"]
RangeStrategyName: TypeAlias = Literal["UniqueId", "HashRange"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfig:
    """How the tasks of one class run, in whatever main process."""

    task_class: str  # the name of a job
    timeout: float
    cooldown: float
    entity_uid: str = ""  # a table and its column, like customers.id
    range_strategy: RangeStrategyName = "UniqueId"
    resources: int = 1
    priority: int | float | None = None

    def partitions(self) -> list[Partition]:
        """The parts that it is split into: one task for each.

        >>> whole = TaskConfig(task_class="sync", timeout=5, cooldown=5)
        >>> [part.characters for part in whole.partitions()]
        ['0123456789abcdef']
        """
        split = HashRange(self.resources) if self.range_strategy == "HashRange" else UniqueId()
        return split.partitions()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEntry:
    """A task as a main process uses it."""

    task_class: str
    depend_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MainProcessConfig:
    """A set of tasks that are queued together."""

    key: str
    name: str
    tasks: tuple[TaskEntry, ...]
