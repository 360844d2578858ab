"""Workflows as they are written in YAML: the same templates as in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwell import Stepwell, WorkflowDefinitionError
from tests.unit.workflow import shop

EVERYTHING = """
# every key
namespace: shop
name: everything
version: "1.10"
description: Shows every key
context:
  type: object
  properties:
    lines: {type: array, items: {type: object}}
    gift: {type: boolean, default: false}
step_templates:
  - name: first
    description: for readers of the file
    handler: one
    retry_limit: 5
    retryable: false
    skippable: true
    timeout: 1m
    cooldown: 5
    delay: 1.5
    queue: slow
    priority: high
    handler_config: {number: 3}
  - name: many
    handler: one
    depends_on_step: first
    each: {number: context.lines}
    limit: 2
    when:
      context.gift: true
      first: [1, 2]
  - name: approval
    depends_on_steps: [first, many]
    gate:
      result: {type: object, properties: {ok: {type: boolean}}}
      expires: 14d
  - name: last
    handler: two
    inputs: {rows: many, answer: approval.ok}
    trigger: all_concluded
environments:
  production:
    steps:
      first: {timeout: 2m, handler_config: {number: 4}}
  staging:
    step_templates:
      - name: approval
        gate_ignored: 1
"""


def one(number: Any = 0) -> int:
    return 1


def two(rows: list[int], answer: bool) -> None: ...


@pytest.fixture
def jobs(app: Stepwell) -> Stepwell:
    app.job(one)
    app.job(two)
    return app


def problems_of(app: Stepwell, text: str) -> list[str]:
    with pytest.raises(WorkflowDefinitionError) as error:
        app.workflows.load_yaml(text, name="flows.yaml")
    return list(error.value.problems)


def test_every_key_is_read(jobs: Stepwell) -> None:
    (workflow,) = jobs.workflows.load_yaml(EVERYTHING.replace("gate_ignored: 1", "expires: 1d"))
    template = workflow.check()
    assert (template.namespace, template.name, template.version) == ("shop", "everything", "1.10")
    first, many, approval, last = template
    assert (first.retry_limit, first.retryable, first.skippable) == (5, False, True)
    assert (first.timeout, first.cooldown, first.delay, first.queue, first.priority) == (60, 5, 1.5, "slow", "high")
    assert first.arguments == {"number": 3}
    assert (many.kind, many.limit, many.upstream) == ("map", 2, ("first",))
    assert {str(each.path): each.values for each in many.conditions} == {"context.gift": (True,), "first": (1, 2)}
    assert (approval.kind, approval.expires, approval.after) == ("gate", 14 * 86_400, ("first", "many"))
    assert [str(each.source) for each in last.inputs] == ["many", "approval.ok"]


def test_the_yaml_of_the_example_is_the_template_of_python(app: Stepwell) -> None:
    fulfil = shop.declare_fulfil(app)
    (loaded,) = app.workflows.load_yaml(fulfil.export())
    assert loaded.check() == fulfil.check()
    assert loaded.check().content_hash() == fulfil.check().content_hash()


def test_an_environment_overrides_settings_but_not_the_hash(jobs: Stepwell) -> None:
    text = EVERYTHING.replace("gate_ignored: 1", "expires: 1d")
    (workflow,) = jobs.workflows.load_yaml(text)
    base = workflow.template()
    production = workflow.template("production")
    assert (base.step("first").timeout, production.step("first").timeout) == (60, 120)
    assert production.step("first").arguments == {"number": 4}
    assert production.step("many") == base.step("many")
    assert workflow.template("staging").step("approval").expires == 86_400
    assert workflow.template("unheard-of") == base
    assert base.content_hash() == production.content_hash() == workflow.check().content_hash()
    jobs.workflows.environment = "production"
    assert workflow.template() == production
    jobs.workflows.environment = "staging"
    assert workflow.template().step("first").timeout == 60


def test_the_environment_of_a_program_is_read_once_and_only_for_a_workflow_that_has_some(
    jobs: Stepwell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stepwell.toml").write_text('[app]\nenvironment = "production"\n[unknown]\n')
    (workflow,) = jobs.workflows.load_yaml(EVERYTHING.replace("gate_ignored: 1", "expires: 1d"))
    (plain,) = jobs.workflows.load_yaml("name: plain\nsteps: []\n")
    plain.template()
    assert "environment" not in vars(jobs)
    production = workflow.template("production")
    assert workflow.template() == production
    monkeypatch.setenv("STEPWELL_ENV", "staging")
    assert workflow.template() == production
    jobs.workflows.environment = "staging"
    assert workflow.template() == workflow.template("staging") != production
    jobs.workflows.environment = None
    assert workflow.template() == production


def test_a_file_can_hold_several_workflows(jobs: Stepwell, tmp_path: Path) -> None:
    path = tmp_path / "flows.yaml"
    path.write_text("name: a\nsteps: [{name: x, handler: one}]\n---\nname: b\nsteps: []\n")
    assert [str(workflow) for workflow in jobs.workflows.load(path)] == ["default.a version 1", "default.b version 1"]
    assert jobs.workflows.get("a").check().step("x").action == "one"


def test_a_step_takes_the_settings_of_its_job_unless_it_sets_them(app: Stepwell) -> None:
    app.job(timeout=9, queue="slow", retries=9)(one)
    (workflow,) = app.workflows.load_yaml(
        "name: a\nsteps:\n  - {name: x, handler: one}\n  - {name: y, handler: one, timeout: 0, queue: null}\n"
    )
    x, y = workflow.check()
    assert (x.timeout, x.queue, x.retry_limit) == (9, "slow", 3)
    assert (y.timeout, y.queue) == (0, None)
    (again,) = app.workflows.load_yaml(workflow.export())
    assert again.check() == workflow.check()


def test_anchors_and_merges_are_understood(jobs: Stepwell) -> None:
    (workflow,) = jobs.workflows.load_yaml(
        "name: a\nsteps:\n  - &x {name: x, handler: one, timeout: 3}\n  - {<<: *x, name: y}\n"
    )
    assert [(step.name, step.timeout) for step in workflow.check()] == [("x", 3), ("y", 3)]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("name: a\nstep: []\n", 2, "unknown key 'step'; did you mean 'steps'?"),
        ("steps: []\n", 1, "name is missing"),
        ("name: a\nversion: 1.10\nsteps: []\n", 2, 'write "1.10" with quotes'),
        ("name: a b\nsteps: []\n", 1, "not a valid name"),
        ("name: a\nsteps:\n  - handler: one\n", 3, "name is missing"),
        ("name: a\nsteps:\n  - name: x\n", 3, "handler is missing"),
        ("name: a\nsteps:\n  - name: x\n    handler: on\n", 4, "no job 'on' is registered with the app"),
        ("name: a\nsteps:\n  - name: x\n    handler: oen\n", 4, "did you mean 'one'?"),
        ("name: a\nsteps:\n  - {name: x, handler: one,\n     retries: 3}\n", 4, "did you mean 'retry_limit'?"),
        ("name: a\nsteps:\n  - {name: x, handler: one,\n     after: [y]}\n", 4, "did you mean 'depends_on_steps'?"),
        ("name: a\nsteps:\n  - name: x\n    handler: one\n    skippable: on\n", 5, "write true or false"),
        ("name: a\nsteps:\n  - name: x\n    handler: one\n    timeout: 12:30\n", 5, 'like "12m30s"'),
        ("name: a\nsteps:\n  - name: x\n    handler: one\n    when:\n      context.a: on\n", 6, 'write "on"'),
        ("name: a\nsteps:\n  - name: x\n    handler: one\n    when:\n      context.a: 12:30\n", 6, 'write "12:30"'),
        ("name: a\nsteps:\n  - name: x\n    handler: one\n    when:\n      context.a: 2026-01-01\n", 6, "is a date"),
        ("name: a\nsteps:\n  - name: x\n    handler: one\n    handler_config: {number: 010}\n", 5, "octal"),
        ("name: a\nsteps:\n  - name: x\n    handler: one\n    handler_config: {number: .inf}\n", 5, "no JSON form"),
        ("name: a\nsteps:\n  - name: x\n    handler: one\n    handler_config: {nmber: 1}\n", 5, "handler_config: the"),
        ("name: a\nsteps:\n  - name: x\n    handler: one\n    depends_on_step: y\n", 5, "unknown step 'y'"),
        ("name: a\nsteps:\n  - name: x\n    handler: one\n    depends_on_steps: x\n", 5, "is a list"),
        ("name: a\nsteps:\n  - name: x\n    gate: true\n    timeout: 3\n", 5, "a gate runs no code"),
        ("name: a\nsteps:\n  - name: x\n    gate: {}\n    inputs: {a: b}\n", 5, "takes no data"),
        ("name: a\nsteps:\n  - name: x\n    gate:\n      expire: 3\n", 5, "did you mean 'expires'?"),
        ("name: a\nsteps:\n  - name: x\n    gate:\n      expires: never\n", 5, "expires: expected a number of seconds"),
        ("name: a\nname: b\nsteps: []\n", 2, "defined twice, first on line 1"),
        ("name: a\nsteps: [\n", 3, "not valid YAML"),
        ("name: a\nsteps: !!python/object:os.system x\n", 2, "tags are not supported"),
        ("name: a\n1: b\nsteps: []\n", 2, "keys are text"),
        ("- a\n", 1, "expected a mapping"),
        ("", 1, "no workflow in this file"),
        ("name: a\nsteps: {x: 1}\n", 2, "expected a list of steps"),
        ("name: a\ncontext:\n  type: objekt\nsteps: []\n", 3, "not a valid JSON schema"),
        ("name: a\nsteps:\n  - {name: x, gate: true}\n  - {name: x, gate: true}\n", 4, "names must be distinct"),
        ("name: a\nsteps: []\nenvironments:\n  production:\n    steps: {x: {timeout: 3}}\n", 5, "unknown step 'x'"),
        ("name: a\nsteps: &a [*a]\n", 2, "too large"),
    ],
)  # fmt: skip
def test_a_problem_is_reported_with_its_line_and_a_suggestion(
    jobs: Stepwell, text: str, line: int, message: str
) -> None:
    found = problems_of(jobs, text)
    assert any(problem.startswith(f"flows.yaml:{line}: ") and message in problem for problem in found), found


def test_all_problems_of_a_file_are_reported_in_the_order_of_lines(jobs: Stepwell) -> None:
    found = problems_of(
        jobs, "name: a b\nversion: 1.5\nsteps:\n  - name: x\n    handler: no-one\n    retries: 3\n---\n- 3\n"
    )
    assert [problem.split(":")[1] for problem in found] == ["1", "2", "5", "6", "8"]


def test_a_billion_laughs_are_refused(jobs: Stepwell) -> None:
    lines = ["name: a", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert any("too large" in problem for problem in problems_of(jobs, "\n".join(lines)))
    assert any("larger than" in problem for problem in problems_of(jobs, "#" * 1_100_000))


def test_nothing_is_declared_by_a_file_with_problems(jobs: Stepwell) -> None:
    problems_of(jobs, "name: a\nsteps: []\n---\nname: b c\nsteps: []\n")
    assert list(jobs.workflows) == []


def test_files_can_be_checked_without_declaring_anything(jobs: Stepwell, tmp_path: Path) -> None:
    good, bad, missing = tmp_path / "good.yaml", tmp_path / "bad.yaml", tmp_path / "missing.yaml"
    good.write_text("name: a\nsteps: [{name: x, handler: one}]\n")
    bad.write_text("name: b\nsteps: [{name: x, handler: oen}]\n")
    assert jobs.workflows.problems_in(good) == []
    found = jobs.workflows.problems_in(good, bad, missing)
    assert [problem.split(":")[0] for problem in found] == [str(bad), str(missing)]
    assert list(jobs.workflows) == []
    other = tmp_path / "other.yaml"
    other.write_text("name: a\nsteps: []\n")
    (conflict,) = jobs.workflows.problems_in(good, other)
    assert "declared twice with different content" in conflict


def test_a_file_that_is_not_utf_8_is_refused(jobs: Stepwell, tmp_path: Path) -> None:
    path = tmp_path / "flows.yaml"
    path.write_bytes(b"name: \xff\xfe")
    assert "not UTF-8" in jobs.workflows.problems_in(path)[0]
