"""The main processes of a configuration: which tasks each consists of, and what these depend on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from stepwell.processes.config.items import MainProcessConfig, TaskEntry
from stepwell.processes.config.problems import Place, Problems, name_of, shown
from stepwell.workflow.declare.cycles import cycles

_KEYS: Final = ("name", "tasks")
_ENTRY_KEYS: Final = ("class", "depend_on")


def read_main_processes(problems: Problems, given: Any, classes: Collection[str]) -> dict[str, MainProcessConfig]:
    """The main processes by their key; `classes` are those of the tasks."""
    processes: dict[str, MainProcessConfig] = {}
    taken: dict[str, str] = {}
    for key, process in problems.tables(("main_processes",), given, "name and tasks"):
        place: Place = ("main_processes", key)
        problems.check_keys(place, process, _KEYS)
        name = process.get("name", key)
        if not isinstance(name, str) or not name.strip():
            problems.add((*place, "name"), f"{shown(name)}: expected a name")
            name = key
        for word in sorted({key, name}):
            if word in taken:
                problems.add(place, f"{word!r} is already the key or the name of {taken[word]!r}")
            taken.setdefault(word, key)
        tasks = _entries(problems, (*place, "tasks"), process.get("tasks"), classes)
        processes[key] = MainProcessConfig(key=key, name=name, tasks=tasks)
    _refuse_cycles(problems, processes)
    return processes


def _entries(problems: Problems, around: Place, given: Any, classes: Collection[str]) -> tuple[TaskEntry, ...]:
    if not isinstance(given, list | tuple) or not given:
        problems.add(around, "expected a list of tasks, each with a class")
        return ()
    entries: dict[str, TaskEntry] = {}
    for number, entry in enumerate(given):
        place: Place = (*around, number)
        if not isinstance(entry, Mapping):
            problems.add(place, f"{shown(entry)}: expected a table with class and, if needed, depend_on")
            continue
        problems.check_keys(place, entry, _ENTRY_KEYS)
        if (name := problems.class_of(place, entry)) is None:
            continue
        if name not in classes:
            problems.unknown_class((*place, "class"), name, classes)
        if name in entries:
            problems.add((*place, "class"), f"class {name!r} is already in this main process")
        depend_on = _depend_on(problems, (*place, "depend_on"), name, entry.get("depend_on", []), classes)
        entries.setdefault(name, TaskEntry(task_class=name, depend_on=depend_on))
    return tuple(entries.values())


def _depend_on(problems: Problems, place: Place, name: str, given: Any, classes: Collection[str]) -> tuple[str, ...]:
    dependees = []
    for each in given if isinstance(given, list | tuple) else [given]:
        dependee = name_of(each)
        if dependee is None:
            problems.add(place, f"{shown(each)}: expected the class of a task")
        elif dependee == name:
            problems.add(place, f"{name!r} depends on itself; name the task that it runs after")
        elif dependee not in classes:
            problems.unknown_class(place, dependee, classes)
        else:
            dependees.append(dependee)
    return tuple(dict.fromkeys(dependees))


def _refuse_cycles(problems: Problems, processes: Mapping[str, MainProcessConfig]) -> None:
    """Also through several main processes: a task that several of them queue is one task."""
    upstream: dict[str, set[str]] = {}
    places: dict[str, Place] = {}
    for process in processes.values():
        for number, entry in enumerate(process.tasks):
            upstream.setdefault(entry.task_class, set()).update(entry.depend_on)
            if entry.depend_on:
                places[entry.task_class] = ("main_processes", process.key, "tasks", number, "depend_on")
    for path in cycles(upstream):
        text = " after ".join(reversed(path))
        problems.add(places[path[0]], f"a cycle, in which no task can ever complete: {text}")
