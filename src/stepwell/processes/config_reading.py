"""Checking a configuration of main processes: every problem at once, each with its place and a hint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from stepwell.model.suggest import near
from stepwell.processes.config_items import (
    MainProcessConfig,
    PriorityStrategyName,
    RangeStrategyName,
    TaskConfig,
    TaskEntry,
)
from stepwell.processes.config_sources import Source
from stepwell.service.config.kinds import BadValue, Flaw, Kind, as_toml
from stepwell.service.config.numbers import Seconds, WholeNumber
from stepwell.service.config.words import one_of
from stepwell.share.ranges import HEX
from stepwell.workflow.declare.cycles import cycles

Place = tuple[str | int, ...]

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
_PROCESS_KEYS: Final = ("name", "tasks")
_ENTRY_KEYS: Final = ("class", "depend_on")
_TASK_KEYS: Final = ("class", "timeout", "cooldown", "resources", "entity_uid", "range_strategy", "priority")
_SUPERFLUOUS: Final = {
    "phpExecutable": "Stepwell starts its own processes; remove it",
    "applicationPhpFile": "Stepwell finds the code by `--app`; remove it",
}
_COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){1,2}", re.ASCII)


def read(source: Source) -> tuple[dict[str, Any], list[str]]:
    """The arguments of `ProcessConfig`, and every problem in the order of the lines."""
    reader = _Reader(source)
    settings = reader.read()
    found = sorted(reader.problems, key=lambda problem: problem[0])
    return settings, list(dict.fromkeys(text for _, text in found))


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source
        self.problems: list[tuple[int, str]] = []

    def read(self) -> dict[str, Any]:
        data = self._source.data
        if not isinstance(data, Mapping):
            self._problem((), "expected main_processes and tasks")
            return {}
        self._check_keys((), data, _KEYS)
        settings = {key: self._value((key,), kind, data[key]) for key, kind in _SETTINGS.items() if key in data}
        strategy = self._strategy(data)
        tasks = self._tasks(data, strategy)
        processes = self._processes(data, tasks)
        self._refuse_cycles(processes)
        return {**settings, "priority_strategy": strategy, "tasks": tasks, "main_processes": processes}

    # tasks --------------------------------------------------------------------------------------------------

    def _tasks(self, data: Mapping[str, Any], strategy: str) -> dict[str, TaskConfig]:
        tasks: dict[str, TaskConfig] = {}
        first: dict[str, str] = {}
        for key, task in self._table(("tasks",), data.get("tasks")).items():
            place: Place = ("tasks", key)
            if not isinstance(task, Mapping):
                self._problem(place, f"{_shown(task)}: expected a table with class, timeout and cooldown")
                continue
            self._check_keys(place, task, _TASK_KEYS)
            if (name := self._class(place, task)) is None:
                continue
            if name in first:
                self._problem((*place, "class"), f"class {name!r} is already that of task {first[name]!r}")
                continue
            first[name] = str(key)
            tasks[name] = self._task(place, name, task, strategy)
        return tasks

    def _task(self, place: Place, name: str, task: Mapping[str, Any], strategy: str) -> TaskConfig:
        seconds = {}
        for key in ("timeout", "cooldown"):
            if key in task:
                seconds[key] = self._value((*place, key), Seconds(0, 366 * _DAY), task[key]) or 0.0
            else:
                self._problem(place, f"{key} is missing; it is a number of seconds")
                seconds[key] = 0.0
        split = self._choice((*place, "range_strategy"), task.get("range_strategy"), get_args(RangeStrategyName))
        resources = 1
        if "resources" in task:
            resources = self._value((*place, "resources"), WholeNumber(1, len(HEX)), task["resources"]) or 1
        uid = task.get("entity_uid", "")
        if "entity_uid" in task and not (isinstance(uid, str) and _COLUMN.fullmatch(uid)):
            self._problem((*place, "entity_uid"), f"{_shown(uid)}: expected a table and its column, like customers.id")
            uid = ""
        if split == "HashRange":
            for key, example in (("resources", "a number from 1 to 16"), ("entity_uid", "a column like customers.id")):
                if key not in task:
                    self._problem(place, f"{key} is missing; with HashRange it is {example}")
        return TaskConfig(
            task_class=name,
            entity_uid=uid,
            range_strategy="HashRange" if split == "HashRange" else "UniqueId",
            resources=resources,
            priority=self._priority(place, task, strategy),
            **seconds,
        )

    def _priority(self, place: Place, task: Mapping[str, Any], strategy: str) -> int | float | None:
        if "priority" not in task:
            if strategy == "DivideTotalValueEqually":
                self._problem(place, f"priority is missing; {strategy} divides the slots by it")
            return None
        priority = task["priority"]
        if isinstance(priority, bool) or not isinstance(priority, int | float) or not 0 < priority < 1e9:
            self._problem((*place, "priority"), f"{_shown(priority)}: expected a number above 0")
            return None
        return priority

    # main processes -----------------------------------------------------------------------------------------

    def _processes(self, data: Mapping[str, Any], tasks: Mapping[str, TaskConfig]) -> dict[str, MainProcessConfig]:
        processes: dict[str, MainProcessConfig] = {}
        taken: dict[str, str] = {}
        for key, process in self._table(("main_processes",), data.get("main_processes")).items():
            place: Place = ("main_processes", key)
            if not isinstance(process, Mapping):
                self._problem(place, f"{_shown(process)}: expected a table with name and tasks")
                continue
            self._check_keys(place, process, _PROCESS_KEYS)
            name = process.get("name", key)
            if not isinstance(name, str) or not name.strip():
                self._problem((*place, "name"), f"{_shown(name)}: expected a name")
                name = key
            for word in {key, name}:
                if word in taken:
                    self._problem(place, f"{word!r} already is the key or the name of {taken[word]!r}")
                taken[word] = key
            processes[key] = MainProcessConfig(key=key, name=name, tasks=self._entries(place, process, tasks))
        return processes

    def _entries(
        self, around: Place, process: Mapping[str, Any], tasks: Mapping[str, TaskConfig]
    ) -> tuple[TaskEntry, ...]:
        given = process.get("tasks")
        if not isinstance(given, list | tuple) or not given:
            self._problem((*around, "tasks"), "expected a list of tasks, each with a class")
            return ()
        entries: dict[str, TaskEntry] = {}
        for number, entry in enumerate(given):
            place: Place = (*around, "tasks", number)
            if not isinstance(entry, Mapping):
                self._problem(place, f"{_shown(entry)}: expected a table with class and, if needed, depend_on")
                continue
            self._check_keys(place, entry, _ENTRY_KEYS)
            name = self._class(place, entry)
            if name is not None and name not in tasks:
                self._unknown_class((*place, "class"), name, tasks)
            if name in entries:
                self._problem((*place, "class"), f"class {name!r} is already in this main process")
            if name is not None:
                depend_on = self._depend_on(place, name, entry.get("depend_on", []), tasks)
                entries.setdefault(name, TaskEntry(task_class=name, depend_on=depend_on))
        return tuple(entries.values())

    def _depend_on(self, place: Place, name: str, given: Any, tasks: Mapping[str, TaskConfig]) -> tuple[str, ...]:
        dependees = []
        for each in given if isinstance(given, list | tuple) else [given]:
            dependee = _name_of(each)
            if dependee is None:
                self._problem((*place, "depend_on"), f"{_shown(each)}: expected the class of a task")
            elif dependee == name:
                self._problem((*place, "depend_on"), f"{name!r} depends on itself; name the task that it runs after")
            elif dependee not in tasks:
                self._unknown_class((*place, "depend_on"), dependee, tasks)
            else:
                dependees.append(dependee)
        return tuple(dict.fromkeys(dependees))

    def _refuse_cycles(self, processes: Mapping[str, MainProcessConfig]) -> None:
        upstream: dict[str, set[str]] = {}
        places: dict[str, Place] = {}
        for process in processes.values():
            for number, entry in enumerate(process.tasks):
                upstream.setdefault(entry.task_class, set()).update(entry.depend_on)
                if entry.depend_on:
                    places[entry.task_class] = ("main_processes", process.key, "tasks", number, "depend_on")
        for path in cycles(upstream):
            text = " after ".join(reversed(path))
            self._problem(places[path[0]], f"a cycle, in which no task is ever complete: {text}")

    # values -------------------------------------------------------------------------------------------------

    def _strategy(self, data: Mapping[str, Any]) -> PriorityStrategyName:
        options = get_args(PriorityStrategyName)
        chosen = self._choice(("priority_strategy",), data.get("priority_strategy"), options)
        return "DivideTotalValueEqually" if chosen == "DivideTotalValueEqually" else "SortByDateCreated"

    def _choice(self, place: Place, given: Any, options: tuple[str, ...]) -> str | None:
        """One of the names; that of a class may have the suffix that it has in Crystal."""
        if given is None:
            return None
        name = given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
        for suffix in ("", "Strategy", "RangeStrategy", "PriorityStrategy"):
            if (short := name.removesuffix(suffix)) in options:
                return short
        self._problem(place, f"{_shown(name)}: expected {one_of([as_toml(option) for option in options])}")
        return None

    def _value(self, place: Place, kind: Kind[Any], value: Any) -> Any:
        try:
            return kind.read(value)
        except BadValue as error:
            for flaw in error.flaws:
                self._flaw(place, flaw)
            return None

    def _flaw(self, place: Place, flaw: Flaw) -> None:
        self._problem((*place, *flaw.at), f"{_shown(flaw.value)}: expected {flaw.expected}")

    def _class(self, place: Place, table: Mapping[str, Any]) -> str | None:
        if "class" not in table:
            self._problem(place, "class is missing; it is the name of a job")
            return None
        name = _name_of(table["class"])
        if name is None:
            self._problem((*place, "class"), f"{_shown(table['class'])}: expected the name of a job")
        return name

    def _unknown_class(self, place: Place, name: str, tasks: Mapping[str, TaskConfig]) -> None:
        self._problem(place, f"no task has the class {name!r}; {_hint(name, tasks, 'classes')}")

    def _table(self, place: Place, value: Any) -> Mapping[str, Any]:
        if isinstance(value, Mapping) and value:
            return value
        self._problem(place, "is missing or empty; expected a table" if not value else "expected a table")
        return {}

    def _check_keys(self, place: Place, table: Mapping[str, Any], valid: Iterable[str]) -> None:
        for key in table:
            if key in valid:
                continue
            advice = _SUPERFLUOUS.get(str(key)) or _hint(_snake(str(key)), valid, "keys")
            self._problem((*place, key), f"unknown key; {advice}")

    def _problem(self, place: Place, text: str) -> None:
        label = _label(place)
        line = self._source.line_of(place) or 0
        self.problems.append((line, f"{self._source.where(place)}: {f'{label}: ' if label else ''}{text}"))


def _name_of(value: Any) -> str | None:
    """The name of a job: text, or the job itself."""
    name = value if isinstance(value, str) else getattr(value, "action", None)
    return name if isinstance(name, str) and name.strip() else None


def _snake(key: str) -> str:
    """A key as it is written here, of one in camel case.

    >>> _snake("maxExecutionSlots"), _snake("dependOn")
    ('max_execution_slots', 'depend_on')
    """
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda match: f"_{match[0].lower()}", key)


def _hint(word: str, valid: Iterable[str], what: str) -> str:
    names = list(valid)
    meant = near(word, names)
    return f"did you mean {meant}?" if meant is not None else f"valid {what}: {', '.join(names)}"


def _label(place: Place) -> str:
    """A place as text, counted from 1.

    >>> _label(("main_processes", "nightly", "tasks", 0, "class"))
    'main_processes.nightly.tasks[1].class'
    """
    label = ""
    for part in place:
        label += f"[{part + 1}]" if isinstance(part, int) else f"{'.' if label else ''}{part}"
    return label


def _shown(value: Any) -> str:
    text = as_toml(value) if isinstance(value, str | int | float | bool | list) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:59]}…"
