"""The configuration of main processes: what is accepted, and every problem at once with its place and a hint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwell import Stepwell
from stepwell.model.errors import ConfigError, StepwellError
from stepwell.processes.config import ProcessConfig
from stepwell.processes.config.items import TaskEntry
from stepwell.share import DivideTotalValueEqually, HashRange, SortByDateCreated

CRYSTAL = Path(__file__).parent / "crystal.toml"


def settings(**changes: Any) -> dict[str, Any]:
    return {
        "main_processes": {"nightly": {"name": "Nightly", "tasks": [{"class": "sync"}]}},
        "tasks": {"sync": {"class": "sync", "timeout": 60, "cooldown": 5}},
        **changes,
    }


def problems_of(given: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        ProcessConfig.of(given)
    return list(caught.value.problems)


def test_the_example_of_crystal_is_accepted_with_its_typo_mended():
    config = ProcessConfig.load(CRYSTAL)
    assert config.max_execution_slots == 10
    assert (config.sleep_time_seconds, config.run_time_seconds, config.max_error_tries) == (5, 60, 5)
    assert isinstance(config.strategy(), DivideTotalValueEqually)
    assert config.main_process("mainProcess1").tasks == (
        TaskEntry(task_class="DependentTask", depend_on=("DependeeTask",)),
    )
    assert config.main_process("SuccessAndNotCompletedTask") is config.main_processes["mainProcess3"]
    assert config.tasks["ThirtySecondsTask"].priority == 3000
    assert [part.number for part in config.tasks["DependeeTask"].partitions()] == [1]


def test_the_literal_example_of_crystal_is_refused_because_a_task_depends_on_itself(tmp_path):
    literal = tmp_path / "crystal.toml"
    literal.write_text(
        CRYSTAL.read_text().replace('class = "DependentTask", depend_on', 'class = "DependeeTask", depend_on')
    )
    with pytest.raises(ConfigError) as caught:
        ProcessConfig.load(literal)
    line = next(
        number
        for number, text in enumerate(literal.read_text().splitlines(), 1)
        if 'depend_on = "DependeeTask"' in text
    )
    assert caught.value.problems == (
        f"{literal}:{line}: main_processes.mainProcess1.tasks[1].depend_on: 'DependeeTask' depends on itself; "
        "name the task that it runs after",
    )


def test_yaml_is_read_like_toml(tmp_path):
    file = tmp_path / "processes.yaml"
    file.write_text(
        "max_execution_slots: 4\n"
        "main_processes:\n"
        "  nightly:\n"
        "    tasks:\n"
        "      - class: sync\n"
        "      - class: report\n"
        "        depend_on: [sync]\n"
        "tasks:\n"
        "  a: {class: sync, timeout: 60, cooldown: 5,\n"
        "      range_strategy: HashRange, resources: 4, entity_uid: customers.id}\n"
        "  b: {class: report, timeout: 1m, cooldown: 5}\n"
    )
    config = ProcessConfig.load(file)
    assert config.max_execution_slots == 4
    assert config.tasks["sync"].partitions() == HashRange(4).partitions()
    assert config.tasks["report"].timeout == 60
    assert config.main_process("nightly").tasks[1].depend_on == ("sync",)


@pytest.mark.parametrize("suffix", ["toml", "yaml"])
def test_every_problem_of_a_file_is_reported_at_once_with_its_line(tmp_path, suffix):
    file = tmp_path / f"bad.{suffix}"
    if suffix == "toml":
        file.write_text(
            'max_execution_slots = 0\nmaxErrorTries = 5\n[main_processes.m]\ntasks = [{ class = "synk" }]\n'
            '[tasks.t]\nclass = "sync"\ntimeout = "soon"\ncooldown = 5\n'
        )
    else:
        file.write_text(
            "max_execution_slots: 0\nmaxErrorTries: 5\nmain_processes: {m: \n   {tasks: [{class: synk}]}}\n"
            "tasks: {t: {\n  class: sync,\n  timeout: soon,\n  cooldown: 5}}\n"
        )
    with pytest.raises(ConfigError) as caught:
        ProcessConfig.load(file)
    first, second, third, fourth = caught.value.problems
    assert first == f"{file}:1: max_execution_slots: 0: expected a whole number of at least 1"
    assert second == f"{file}:2: maxErrorTries: unknown key; did you mean max_error_tries?"
    assert third == f"{file}:4: main_processes.m.tasks[1].class: no task has the class 'synk'; did you mean sync?"
    assert fourth.startswith(f'{file}:7: tasks.t.timeout: "soon": expected at least 0 seconds')


def test_a_key_in_camel_case_is_refused_with_the_right_one():
    found = problems_of(
        settings(sleepTimeSeconds=5, phpExecutable="php")
        | {"main_processes": {"m": {"tasks": [{"class": "sync", "dependOn": "sync"}]}}}
    )
    assert "main processes: sleepTimeSeconds: unknown key; did you mean sleep_time_seconds?" in found
    assert "main processes: phpExecutable: unknown key; Stepwell starts its own processes; remove it" in found
    assert "main processes: main_processes.m.tasks[1].dependOn: unknown key; did you mean depend_on?" in found


def test_a_priority_is_mandatory_where_slots_are_divided_by_it():
    assert isinstance(ProcessConfig.of(settings()).strategy(), SortByDateCreated)
    assert problems_of(settings(priority_strategy="DivideTotalValueEqually")) == [
        "main processes: tasks.sync: priority is missing; DivideTotalValueEqually divides the slots by it"
    ]


def test_a_hash_range_needs_resources_and_an_entity():
    tasks = {"t": {"class": "sync", "timeout": 1, "cooldown": 1, "range_strategy": "HashRange"}}
    found = problems_of(settings(tasks=tasks))
    assert found == [
        "main processes: tasks.t: resources is missing; with HashRange it is a number from 1 to 16",
        "main processes: tasks.t: entity_uid is missing; with HashRange it is a column like customers.id",
    ]
    tasks["t"] |= {"resources": 17, "entity_uid": "customers; drop"}
    assert len(problems_of(settings(tasks=tasks))) == 2


def test_cycles_are_refused_also_through_several_main_processes():
    task = {"timeout": 1, "cooldown": 1}
    found = problems_of(
        {
            "main_processes": {
                "one": {"tasks": [{"class": "a", "depend_on": "b"}]},
                "two": {"tasks": [{"class": "b", "depend_on": ["c"]}, {"class": "c", "depend_on": "a"}]},
            },
            "tasks": {name: {"class": name, **task} for name in "abc"},
        }
    )
    assert found == [
        "main processes: main_processes.one.tasks[1].depend_on: a cycle, in which no task is ever complete: "
        "a after b after c after a"
    ]


def test_names_must_be_unique_and_an_unused_task_is_allowed():
    config = ProcessConfig.of(settings(tasks={"sync": {"class": "sync", "timeout": 1, "cooldown": 1},
                                              "spare": {"class": "spare", "timeout": 1, "cooldown": 1}}))  # fmt: skip
    assert "spare" in config.tasks
    twice = {"a": {"name": "same", "tasks": [{"class": "sync"}]}, "b": {"name": "same", "tasks": [{"class": "sync"}]}}
    assert problems_of(settings(main_processes=twice)) == [
        "main processes: main_processes.b: 'same' is already the key or the name of 'a'"
    ]


def test_a_job_can_stand_for_its_name():
    app = Stepwell("sqlite://")

    @app.job()
    def sync() -> None: ...

    config = ProcessConfig.of(settings(main_processes={"m": {"tasks": [{"class": sync}]}}))
    assert config.main_process("m").tasks[0].task_class == "sync"


def test_an_unknown_main_process_is_refused_with_a_suggestion():
    with pytest.raises(StepwellError, match="unknown main process 'nightley'; did you mean nightly"):
        ProcessConfig.of(settings()).main_process("nightley")
