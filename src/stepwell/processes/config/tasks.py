"""The tasks of a configuration: how each class runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, get_args

from stepwell.processes.config.items import RangeStrategyName, TaskConfig
from stepwell.processes.config.problems import Place, Problems, shown
from stepwell.service.config.numbers import Seconds, WholeNumber
from stepwell.share.ranges import HEX

_KEYS: Final = ("class", "timeout", "cooldown", "resources", "entity_uid", "range_strategy", "priority")
_COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){1,2}", re.ASCII)
_HIGHEST: Final = 1e9  # of a priority


def read_tasks(problems: Problems, given: Any, strategy: str) -> dict[str, TaskConfig]:
    """The tasks by their class."""
    tasks: dict[str, TaskConfig] = {}
    first: dict[str, str] = {}
    for key, task in problems.tables(("tasks",), given, "class, timeout and cooldown"):
        place: Place = ("tasks", key)
        problems.check_keys(place, task, _KEYS)
        if (name := problems.class_of(place, task)) is None:
            continue
        if name in first:
            problems.add((*place, "class"), f"class {name!r} is already that of task {first[name]!r}")
            continue
        first[name] = key
        tasks[name] = _task(problems, place, name, task, strategy)
    return tasks


def _task(problems: Problems, place: Place, name: str, task: Mapping[str, Any], strategy: str) -> TaskConfig:
    split = problems.choice((*place, "range_strategy"), task.get("range_strategy"), get_args(RangeStrategyName))
    if split == "HashRange":
        for key, example in (("resources", "a number from 1 to 16"), ("entity_uid", "a column like customers.id")):
            if key not in task:
                problems.add(place, f"{key} is missing; with HashRange it is {example}")
    resources = 1
    if "resources" in task:
        resources = problems.value((*place, "resources"), WholeNumber(1, len(HEX)), task["resources"]) or 1
    return TaskConfig(
        task_class=name,
        timeout=_seconds(problems, place, task, "timeout"),
        cooldown=_seconds(problems, place, task, "cooldown"),
        entity_uid=_entity(problems, place, task),
        range_strategy="HashRange" if split == "HashRange" else "UniqueId",
        resources=resources,
        priority=_priority(problems, place, task, strategy),
    )


def _seconds(problems: Problems, place: Place, task: Mapping[str, Any], key: str) -> float:
    if key not in task:
        problems.add(place, f"{key} is missing; it is a number of seconds")
        return 0.0
    return problems.value((*place, key), Seconds(), task[key]) or 0.0


def _entity(problems: Problems, place: Place, task: Mapping[str, Any]) -> str:
    uid = task.get("entity_uid", "")
    if "entity_uid" not in task or (isinstance(uid, str) and _COLUMN.fullmatch(uid)):
        return str(uid)
    problems.add((*place, "entity_uid"), f"{shown(uid)}: expected a table and its column, like customers.id")
    return ""


def _priority(problems: Problems, place: Place, task: Mapping[str, Any], strategy: str) -> int | float | None:
    if "priority" not in task:
        if strategy == "DivideTotalValueEqually":
            problems.add(place, f"priority is missing; {strategy} divides the slots by it")
        return None
    priority = task["priority"]
    if isinstance(priority, bool) or not isinstance(priority, int | float) or not 0 < priority < _HIGHEST:
        problems.add((*place, "priority"), f"{shown(priority)}: expected a number above 0")
        return None
    return priority
