"""The configuration of main processes: what is accepted, and every problem at once with its place and a hint."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell import Stepwell
from stepwell.model.errors import ConfigError, StepwellError
from stepwell.processes.config import MainProcessConfig, ProcessConfig, TaskConfig, TaskEntry
from stepwell.service.config.kinds import as_toml
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
        "main processes: main_processes.one.tasks[1].depend_on: a cycle, in which no task can ever complete: "
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


EVERY_KEY: dict[str, Any] = {
    "max_execution_slots": 7,
    "sleep_time_seconds": 0.5,
    "run_time_seconds": 45,
    "max_error_tries": 2,
    "max_not_completed": 3,
    "max_rescues": 4,
    "priority_strategy": "DivideTotalValueEqually",
    "main_processes": {
        "nightly": {"name": "Nightly", "tasks": [{"class": "sync"}, {"class": "report", "depend_on": ["sync"]}]},
        "hourly": {"tasks": [{"class": "report", "depend_on": "sync"}]},
    },
    "tasks": {
        "first": {"class": "sync", "timeout": 60, "cooldown": 5.5, "range_strategy": "HashRange", "resources": 4,
                  "entity_uid": "shop.customers.id", "priority": 20},
        "second": {"class": "report", "timeout": 0, "cooldown": 1, "range_strategy": "UniqueId", "priority": 0.5},
    },
}  # fmt: skip


@pytest.mark.parametrize("suffix", ["toml", "yaml", "yml", "python"])
def test_every_key_means_the_same_in_toml_yaml_and_python(tmp_path: Path, suffix: str) -> None:
    if suffix == "python":
        config = ProcessConfig.of(EVERY_KEY)
    else:
        file = tmp_path / f"processes.{suffix}"
        lines = [f"{key} = {as_toml(value)}" for key, value in EVERY_KEY.items()]
        file.write_text("\n".join(lines) if suffix == "toml" else json.dumps(EVERY_KEY, indent=1))
        config = ProcessConfig.load(file)
    assert config == ProcessConfig(
        max_execution_slots=7,
        sleep_time_seconds=0.5,
        run_time_seconds=45,
        max_error_tries=2,
        max_not_completed=3,
        max_rescues=4,
        priority_strategy="DivideTotalValueEqually",
        main_processes={
            "nightly": MainProcessConfig(
                key="nightly",
                name="Nightly",
                tasks=(TaskEntry(task_class="sync"), TaskEntry(task_class="report", depend_on=("sync",))),
            ),
            "hourly": MainProcessConfig(
                key="hourly", name="hourly", tasks=(TaskEntry(task_class="report", depend_on=("sync",)),)
            ),
        },
        tasks={
            "sync": TaskConfig(
                task_class="sync",
                timeout=60,
                cooldown=5.5,
                range_strategy="HashRange",
                resources=4,
                entity_uid="shop.customers.id",
                priority=20,
            ),
            "report": TaskConfig(task_class="report", timeout=0, cooldown=1, priority=0.5),
        },
    )


def test_strategies_may_be_the_classes_themselves_or_have_the_names_of_crystal() -> None:
    task = {"class": "sync", "timeout": 1, "cooldown": 1, "resources": 2, "entity_uid": "customers.id", "priority": 1}
    for priority, split in (
        (DivideTotalValueEqually, HashRange),
        ("DivideTotalValueEquallyPriorityStrategy", "HashRangeStrategy"),
    ):
        config = ProcessConfig.of(settings(priority_strategy=priority, tasks={"t": {**task, "range_strategy": split}}))
        assert isinstance(config.strategy(), DivideTotalValueEqually)
        assert len(config.tasks["sync"].partitions()) == 2


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"tasks": []}, "tasks: is missing or empty; expected a table"),
        ({"tasks": 5}, "tasks: expected a table"),
        ({"tasks": {"sync": 5}}, "tasks.sync: 5: expected a table with class, timeout and cooldown"),
        ({"tasks": {"a": {"timeout": 1, "cooldown": 1}}}, "tasks.a: class is missing; it is the name of a job"),
        ({"tasks": {"a": {"class": 7, "timeout": 1, "cooldown": 1}}}, "tasks.a.class: 7: expected the name of a job"),
        ({"tasks": {"a": {"class": "sync"}}}, "tasks.a: timeout is missing; it is a number of seconds"),
        ({"priority_strategy": "Best"}, 'priority_strategy: "Best": expected "SortByDateCreated"'),
        ({"run_time_seconds": -1}, "run_time_seconds: -1: expected at least 0.05 seconds"),
        ({"main_processes": {"m": {"tasks": []}}}, "main_processes.m.tasks: expected a list of tasks"),
        ({"main_processes": {"m": {"tasks": [5]}}}, "main_processes.m.tasks[1]: 5: expected a table with class"),
        ({"main_processes": {7: {"tasks": []}}}, "main_processes.7: 7: expected text as the key"),
        ({"main_processes": {"m": {"name": "", "tasks": [{"class": "sync"}]}}}, 'main_processes.m.name: "": expected'),
        (
            {"main_processes": {"m": {"tasks": [{"class": "sync", "depend_on": [None]}]}}},
            "main_processes.m.tasks[1].depend_on: null: expected the class of a task",
        ),
        (
            {"main_processes": {"m": {"tasks": [{"class": "sync"}, {"class": "sync"}]}}},
            "main_processes.m.tasks[2].class: class 'sync' is already in this main process",
        ),
    ],
)
def test_a_problem_names_its_place_and_what_is_expected(changes: dict[str, Any], problem: str) -> None:
    found = problems_of(settings(**changes))
    assert any(text.startswith(f"main processes: {problem}") for text in found), found


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["sync", "", "HashRange", "a.b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["class", "tasks", "timeout", "priority", "depend_on", "name", "x"]), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*EVERY_KEY, "other"]), values))
def test_whatever_a_configuration_contains_it_is_accepted_or_refused_with_its_problems(given: dict[str, Any]) -> None:
    with suppress(ConfigError):
        ProcessConfig.of(given)


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    for name in ("none.toml", "none.yaml"):
        with pytest.raises(ConfigError, match=name):
            ProcessConfig.load(tmp_path / name)
    twice = tmp_path / "twice.yaml"
    twice.write_text("tasks: 1\ntasks: 2\n")
    with pytest.raises(ConfigError, match=r"twice\.yaml:2"):
        ProcessConfig.load(twice)
