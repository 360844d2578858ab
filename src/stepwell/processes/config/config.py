"""The configuration of main processes: what they consist of, and how their tasks run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

from stepwell.model.errors import ConfigError, StepwellError
from stepwell.model.plain_text import escaped
from stepwell.model.suggest import hint
from stepwell.processes.config.items import MainProcessConfig, PriorityStrategyName, TaskConfig
from stepwell.processes.config.reading import read
from stepwell.processes.config.sources import of_python, read_file
from stepwell.share.strategies import DivideTotalValueEqually, SortByDateCreated, Strategy

STRATEGIES: Final[Mapping[str, type[Strategy]]] = MappingProxyType(
    {"SortByDateCreated": SortByDateCreated, "DivideTotalValueEqually": DivideTotalValueEqually}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    """Everything that the heartbeats need to know; made by `load` from a file, or by `of` from a mapping.

    >>> config = ProcessConfig.of({
    ...     "main_processes": {"nightly": {"tasks": [{"class": "sync"}]}},
    ...     "tasks": {"sync": {"class": "sync", "timeout": 60, "cooldown": 5}},
    ... })
    >>> config.max_execution_slots, config.main_process("nightly").tasks
    (10, (TaskEntry(task_class='sync', depend_on=()),))
    """

    max_execution_slots: int = 10
    sleep_time_seconds: float = 5.0
    run_time_seconds: float = 60.0
    max_error_tries: int = 5
    max_not_completed: int | None = None  # in a row; None: no limit
    max_rescues: int | None = None  # in a row; None: no limit
    priority_strategy: PriorityStrategyName = "SortByDateCreated"
    main_processes: Mapping[str, MainProcessConfig] = field(default_factory=dict)  # by key
    tasks: Mapping[str, TaskConfig] = field(default_factory=dict)  # by class

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a TOML or YAML file; raises one `ConfigError` with every problem, its line and a hint."""
        return cls._without_problems(*_read(*read_file(Path(path))))

    @classmethod
    def of(cls, settings: Mapping[str, Any], name: str = "main processes") -> Self:
        """The same from a mapping with the keys of the file. A class may also be the job itself."""
        return cls._without_problems(*_read(of_python(settings, name), []))

    @classmethod
    def _without_problems(cls, settings: dict[str, Any], problems: list[str]) -> Self:
        if problems:
            raise ConfigError(*map(escaped, problems))
        return cls(**settings)

    def main_process(self, name: str) -> MainProcessConfig:
        """A main process, by its key or by its name."""
        for process in self.main_processes.values():
            if name in (process.key, process.name):
                return process
        known = sorted({word for each in self.main_processes.values() for word in (each.key, each.name)})
        raise StepwellError(f"unknown main process {name!r}; {hint(name, known, 'main processes')}")

    def strategy(self) -> Strategy:
        """How free slots are divided among task classes."""
        return STRATEGIES[self.priority_strategy]()


def _read(source: Any, problems: list[str]) -> tuple[dict[str, Any], list[str]]:
    if source is None:
        return {}, problems
    settings, more = read(source)
    return settings, [*problems, *more]
