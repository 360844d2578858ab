"""The command line as a whole: how it starts, which database it uses, what it prints when something is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from stepwell import Stepwell, __version__
from stepwell.cli import COMMANDS, main
from tests.conftest import POSTGRES
from tests.unit.cli.support import environment, plain_sql, run, run_bare

NAMES = [name for section in COMMANDS.values() for name in section]
MAY_CREATE = {"init", "demo", "migrate", "enqueue", "completion", "up", "worker", "heartbeat"}
RUN_FOR_LONG = {"dispatcher", "up", "worker", "reaper", "scheduler", "heartbeat", "web"}
# With the arguments that each of them needs.
LOOK_OR_ACT = [
    ["dispatcher"],
    ["web"],
    ["dispatch", "--once"],
    ["steps"],
    ["show", "1"],
    ["tree", "1"],
    ["explain", "1"],
    ["stats"],
    ["top", "--once"],
    ["groups"],
    ["ticks"],
    ["workers"],
    ["processes"],
    ["shares"],
    ["jobs"],
    ["workflows", "list"],
    ["operations", "list"],
    ["schedules", "list"],
    ["scheduler", "--once"],
    ["limits"],
    ["reaper", "--once"],
    ["retry", "1"],
    ["cancel", "1"],
    ["skip", "1"],
    ["pause"],
    ["resume"],
    ["drain"],
    ["safe-to-restart"],
    ["doctor"],
    ["prune"],
    ["archive"],
]


def a_command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert isinstance(found, click.Command)
    return found


def test_help_names_every_command_and_loads_none_of_them() -> None:
    code = (
        "import sys; from stepwell.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "print([m for m in sys.modules if m.endswith('_commands') or m in ('stepwell.app', 'stepwell.public')\n"
        "       or m.split('.')[0] in ('rich', 'psycopg', 'psycopg_pool', 'sqlite3', 'starlette', 'uvicorn')])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    *shown, loaded = ended.stdout.splitlines()
    assert loaded == "[]"
    assert all(any(line.strip().startswith(name) for line in shown) for name in NAMES)
    assert all(len(line) <= 80 for line in shown)


def test_help_of_a_command_loads_neither_the_engine_nor_a_database() -> None:
    """It has to answer in less than 150 ms, which importing them alone would take."""
    code = (
        "import sys; from stepwell.cli import main\n"
        f"for name in {NAMES}:\n"
        "    try: main([name, '--help'])\n"
        "    except SystemExit as end: assert end.code == 0\n"
        "print([m for m in sys.modules if m.startswith(('stepwell.app', 'stepwell.store', 'stepwell.look.explain'))\n"
        "       or m.split('.')[0] in ('rich', 'psycopg', 'sqlite3', 'starlette', 'uvicorn')])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_says_what_it_does(name: str) -> None:
    shown = run_bare(name, "--help").stdout
    assert shown.startswith("Usage: ")
    assert all(len(line) <= 80 for line in shown.splitlines())


def has_option(name: str, option: str) -> bool:
    """Whether a command has an option; of a group, whether each of its commands does that reads a database."""
    command = a_command(name)
    commands = list(command.commands.values()) if isinstance(command, click.Group) else [command]
    return all(any(option in parameter.opts for parameter in each.params) for each in commands if each.name != "export")


@pytest.mark.parametrize(
    "name",
    sorted(set(NAMES) - RUN_FOR_LONG - {"demo", "completion"}),
)
def test_every_command_that_reads_or_acts_can_answer_in_json(name: str) -> None:
    assert has_option(name, "--json")


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"completion"}))
def test_the_database_can_be_named_after_every_command(name: str) -> None:
    assert has_option(name, "--db")


def test_the_list_of_commands_here_is_complete() -> None:
    assert {first for first, *_ in LOOK_OR_ACT} == set(NAMES) - MAY_CREATE


def test_the_version_is_printed() -> None:
    assert run_bare("--version").stdout == f"stepwell {__version__}\n"


def test_a_misspelled_command_is_answered_with_a_suggestion() -> None:
    message = run_bare("stpes", code=2).stderr
    assert "No such command 'stpes'. Did you mean steps" in message


# Which database ----------------------------------------------------------------------------------------


def test_the_database_is_named_before_or_after_the_command_or_by_the_environment(tmp_path: Path) -> None:
    one, two, three = (f"sqlite:///{tmp_path}/{name}.db" for name in ("one", "two", "three"))
    run_bare("--db", one, "enqueue", "first")
    run_bare("enqueue", "second", "--db", two)
    run_bare("enqueue", "third", env={"STEPWELL_DB": three})
    assert [json.loads(run_bare("--db", url, "steps", "--json").stdout)[0]["action"] for url in (one, two, three)] == [
        "first",
        "second",
        "third",
    ]
    nearest = run_bare("--db", one, "steps", "--json", "--db", two, env={"STEPWELL_DB": three})
    assert json.loads(nearest.stdout)[0]["action"] == "second"


def test_without_a_name_it_is_a_file_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STEPWELL_DB", raising=False)
    run_bare("enqueue", "fetch")
    assert (tmp_path / "stepwell.db").exists()


@pytest.mark.parametrize("arguments", LOOK_OR_ACT, ids=lambda arguments: arguments[0])
def test_a_command_that_reads_or_acts_creates_no_file(tmp_path: Path, arguments: list[str]) -> None:
    result = run(f"sqlite:///{tmp_path}/mistyped.db", *arguments, code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("stepwell: no database at ")
    assert "`stepwell migrate` creates one" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", LOOK_OR_ACT, ids=lambda arguments: arguments[0])
def test_a_command_that_reads_or_acts_creates_no_tables_in_the_database_of_another_program(
    tmp_path: Path, arguments: list[str]
) -> None:
    url = f"sqlite:///{tmp_path}/other.db"
    plain_sql(url, "CREATE TABLE invoices (id integer)")
    assert "stepwell: no Stepwell schema in" in run(url, *arguments, code=2).stderr
    run(url, *arguments, code=2)  # nor did the first call create them


@pytest.mark.parametrize("empty_database_url", [POSTGRES], indirect=True)
def test_a_read_only_command_creates_no_tables_on_a_server(empty_database_url: str) -> None:
    for _ in range(2):
        assert "stepwell: no Stepwell schema in" in run(empty_database_url, "steps", code=2).stderr


@pytest.mark.parametrize("arguments", [["enqueue", "fetch"], ["migrate"], ["steps"], ["demo"]])
def test_a_database_in_memory_is_refused_because_it_would_be_lost(arguments: list[str]) -> None:
    assert "in memory" in run("sqlite://", *arguments, code=2).stderr


def test_migrating_twice_changes_nothing(empty_database_url: str) -> None:
    first = json.loads(run(empty_database_url, "migrate", "--json").stdout)
    assert [migration["version"] for migration in first["applied"]] == list(range(1, first["version"] + 1))
    assert json.loads(run(empty_database_url, "migrate", "--json").stdout) == {**first, "applied": []}
    assert "already up to date" in run(empty_database_url, "migrate").stdout


# When something is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "99"], "step 99 does not exist"),
        (["show", "99999999999999999999999"], "does not exist"),
        (["show", "no-uuid"], "no step or workflow has an id that begins with 'no-uuid'"),
        (["explain", "01a1e188-7f26-7001-9844-455d95432ee6"], "does not exist"),
        (["retry", "1"], "it has not ended"),
        (["cancel", "1", "--who", "\x07"], "must be 1 to 200 printable characters"),
        (["resume", "--workflow", "1"], "is not paused"),
        (["enqueue", "fetch", "--parent", "77"], "does not exist: 77"),
        (["enqueue", "fetch", "--arguments", '{"rates": [1, NaN]}'], 'arguments["rates"][1]'),
        (["dispatch", "--group", "alhpa"], "unknown group 'alhpa'"),
        (["safe-to-restart", "--group", "alhpa"], "unknown group 'alhpa'"),
        (["ticks", "--group", "alhpa"], "unknown group 'alhpa'"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_an_error_is_one_line_on_stderr(shared_database_url: str, arguments: list[str], message: str) -> None:
    run(shared_database_url, "enqueue", "fetch")
    result = run(shared_database_url, *arguments, code=1)
    assert result.stdout == ""
    assert result.stderr.startswith("stepwell: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["steps", "--state", "Sleeping"],
        ["steps", "--limit", "0"],
        ["steps", "--relatable", "invoice"],
        ["enqueue", "fetch", "--arguments", "{not json"],
        ["enqueue", "fetch", "--arguments", "[1]"],
        ["enqueue", "fetch", "--at", "tomorrow"],
        ["enqueue"],
        ["drain", "--timeout", "-1"],
    ],
    ids=" ".join,
)
def test_an_error_of_usage_ends_with_2(tmp_path: Path, arguments: list[str]) -> None:
    url = f"sqlite:///{tmp_path}/stepwell.db"
    run(url, "migrate")
    assert "Error: " in run(url, *arguments, code=2).stderr


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://nobody:s3cret@127.0.0.1:1/nothing",
        "postgresql://bad url",
        "mysql://localhost/x",
        "sqlite:////nowhere/at/all/stepwell.db",
    ],
)
def test_a_database_that_cannot_be_used_is_one_line_at_once(url: str) -> None:
    result = run(url, "enqueue", "fetch", code=1)
    assert result.stderr.startswith("stepwell: ")
    assert result.stderr.count("\n") == 1
    assert "s3cret" not in result.stderr


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear Ann, " * 1_000)
    assert "is not a database" in run(f"sqlite:///{letter}", "steps", code=1).stderr
    assert letter.read_text() == "Dear Ann, " * 1_000


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/stepwell.db"
    run(url, "migrate")
    assert run(url, "steps", "--action", "caf\udce9", code=2).stderr.startswith(
        "stepwell: an argument is not valid UTF-8"
    )


# What a terminal must not obey -------------------------------------------------------------------------


def test_control_characters_in_the_database_never_reach_the_terminal(shared_database_url: str) -> None:
    with Stepwell(shared_database_url) as app:
        step = app.enqueue("fetch")
        app.enqueue("wash", {"text": "\x1b[2J \x9b31m \u202e"}, parent=step)
    evil = "\x1b]0;owned\x07 \x9b31m \u202etxt.exe\r"
    literal = f"'{evil}'"
    plain_sql(
        shared_database_url,
        f"UPDATE steps SET label = {literal}, reason = {literal}, relatable_type = {literal}, queue = {literal}, "
        f"error_message = {literal}, error_stack_trace = 'one\n{evil}'",
    )
    for arguments in (["steps"], ["show", "1"], ["show", "2"], ["tree", "1"], ["explain", "2"], ["doctor"]):
        for extra in ([], ["--json"]):
            shown = run(shared_database_url, *arguments, *extra, code=int(arguments == ["doctor"])).stdout
            bad = {character for character in shown if not character.isprintable() and character != "\n"}
            assert not bad, f"{arguments} {extra} shows {bad}"


# Completion --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell: str) -> None:
    assert "_STEPWELL_COMPLETE" in run_bare("completion", shell).stdout


def test_commands_and_states_are_completed() -> None:
    def complete(words: str, place: int) -> str:
        return run_bare(
            env={"_STEPWELL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(place)}
        ).stdout

    assert "plain,safe-to-restart" in complete("stepwell sa", 1)
    assert "plain,notrunnable" in complete("stepwell steps --state not", 3)
