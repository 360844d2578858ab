"""With --json, errors are JSON as well: on stderr, with the exit code; stdout has a result or nothing."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.support import run_bare


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--db", "postgresql://127.0.0.1:1/x", "steps", "--json"], 1, "PostgreSQL cannot be reached"),
        (["--db", "sqlite:///none.db", "steps", "--json"], 2, "no database at none.db"),
        (["steps", "--json", "--state", "bogus"], 2, "'bogus' is not one of"),
        (["steps", "--json", "--bogus"], 2, "No such option"),
        (["show", "--json"], 2, "Missing argument"),
        (["bogus", "--json"], 2, "No such command"),
    ],
)
def test_an_error_of_a_command_with_json_is_json(arguments: list[str], code: int, message: str) -> None:
    result = run_bare(*arguments, code=code)
    error = json.loads(result.stderr)["error"]
    assert result.stdout == ""
    assert error["exit_code"] == code
    assert message in error["messages"][0]


def test_every_problem_of_the_configuration_is_a_message() -> None:
    env = {"STEPWELL_LOG_LEVEL": "loud", "STEPWELL_WORKER_SLOTS": "many"}
    error = json.loads(run_bare("steps", "--json", code=2, env=env).stderr)["error"]
    assert len(error["messages"]) == 2


def test_a_step_that_does_not_exist_is_json(shared_database_url: str) -> None:
    result = run_bare("--db", shared_database_url, "show", "4711", "--json", code=1)
    assert json.loads(result.stderr) == {"error": {"messages": ["step 4711 does not exist"], "exit_code": 1}}


def test_a_command_that_reports_with_its_exit_code_still_prints_its_result(shared_database_url: str) -> None:
    result = run_bare("--db", shared_database_url, "safe-to-restart", "--json", code=1)
    assert json.loads(result.stdout)["safe"] is False
    assert result.stderr == ""
