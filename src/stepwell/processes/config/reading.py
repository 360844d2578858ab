"""Checking a configuration of main processes: every problem at once, each with its place and a hint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from stepwell.processes.config.items import PriorityStrategyName
from stepwell.processes.config.main_processes import read_main_processes
from stepwell.processes.config.problems import Problems
from stepwell.processes.config.sources import ConfigSource
from stepwell.processes.config.tasks import read_tasks
from stepwell.service.config.kinds import Kind
from stepwell.service.config.numbers import Seconds, WholeNumber

_DAY: Final = 86_400.0
_SETTINGS: Final[Mapping[str, Kind[Any]]] = {
    "max_execution_slots": WholeNumber(1, 100_000),
    "sleep_time_seconds": Seconds(0.05, _DAY),
    "run_time_seconds": Seconds(0.05, _DAY),
    "max_error_tries": WholeNumber(1),
    "max_not_completed": WholeNumber(0),
    "max_rescues": WholeNumber(0),
}
_KEYS: Final = (*_SETTINGS, "priority_strategy", "main_processes", "tasks")


def read(source: ConfigSource) -> tuple[dict[str, Any], list[str]]:
    """The arguments of `ProcessConfig`, and every problem in the order of the lines."""
    problems, data = Problems(source), source.data
    if not isinstance(data, Mapping):
        problems.add((), "expected main_processes and tasks")
        return {}, problems.texts()
    problems.check_keys((), data, _KEYS)
    settings = {key: problems.value((key,), kind, data[key]) for key, kind in _SETTINGS.items() if key in data}
    options = get_args(PriorityStrategyName)
    chosen = problems.choice(("priority_strategy",), data.get("priority_strategy"), options)
    settings["priority_strategy"] = chosen or "SortByDateCreated"
    settings["tasks"] = read_tasks(problems, data.get("tasks"), settings["priority_strategy"])
    settings["main_processes"] = read_main_processes(problems, data.get("main_processes"), settings["tasks"].keys())
    return settings, problems.texts()
