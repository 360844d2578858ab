"""Definitions that are refused: every problem at once, each with a hint."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Stepwell
from tests.unit.workflow.shop import Line, Order, Receipt, problems_of


def one(id: int = 0) -> int:
    return id


def two(one: int) -> int:
    return one


def a(c: int) -> int:
    return c


def b(a: int) -> int:
    return a


def c(b: int) -> int:
    return b


def of_line(line: Line) -> int:
    return 1


def of_number(line: int) -> int:
    return 1


def context() -> None: ...
def gift() -> None: ...
def lonely(lonely: int) -> None: ...


def new(app: Stepwell, name: str = "w", **options: Any) -> Any:
    return app.workflows().workflow(name, **options)


def test_a_cycle_is_shown_as_a_path(app: Stepwell) -> None:
    workflow = new(app)
    for code in (a, b, c):
        workflow.step(code)
    workflow.step(name="d", after=["a"])(one)
    (problem,) = problems_of(workflow)
    assert "a -> b -> c -> a" in problem


@pytest.mark.parametrize(
    "dependency", [{"after": ["x"]}, {"when": {"x": 1}}, {"inputs": {"id": "x"}}, {"each": {"id": "x"}}]
)
def test_a_cycle_by_order_condition_data_or_list_is_found(app: Stepwell, dependency: dict[str, Any]) -> None:
    workflow = new(app)
    workflow.step(name="x", after=["y"])(one)
    workflow.step(name="y", **dependency)(one)
    assert any("x -> y -> x" in problem for problem in problems_of(workflow))


@pytest.mark.parametrize(
    "dependency", [{"after": ["y"]}, {"when": {"y.n": 1}}, {"inputs": {"id": "y"}}, {"each": {"id": "y"}}]
)
def test_a_step_cannot_depend_on_itself(app: Stepwell, dependency: dict[str, Any]) -> None:
    workflow = new(app)
    workflow.step(name="y", **dependency)(one)
    (problem,) = problems_of(workflow)
    assert "step 'y' depends on itself" in problem
    named = new(app, "other")
    named.step(lonely)
    assert "depends on itself" in problems_of(named)[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"after": ["tow"]}, "after: unknown step 'tow'; did you mean 'two'?"),
        ({"after": 3}, "expected a list of steps"),
        ({"when": {"context.idd": 1}}, "the context has no 'idd'; did you mean 'id'?"),
        ({"when": {"id": 1}}, "did you mean 'context.id'?"),
        ({"when": {"context.lines.sku": 1}}, ""),
        ({"when": {"tow": 1}}, "unknown step 'tow'; did you mean 'two'?"),
        ({"when": {"two": []}}, "never met"),
        ({"when": {"context.gift": "on"}}, "'on' is never met, because the value is a boolean"),
        ({"when": "two"}, "expected a mapping"),
        ({"when": {"two": float("nan")}}, "cannot be stored"),
        ({"trigger": "all_end"}, "unknown trigger 'all_end'; did you mean 'all_ended'?"),
        ({"retry_limit": 0}, "retry_limit: expected a whole number of at least 1"),
        ({"retry_limit": True}, "retry_limit: expected a whole number of at least 1"),
        ({"retryable": 1}, "retryable: expected true or false"),
        ({"timeout": -1}, "timeout: expected a number of seconds"),
        ({"delay": "soon"}, "delay: expected a number of seconds"),
        ({"priority": "urgent"}, 'priority: expected "default" or "high"'),
        ({"queue": ""}, "queue: expected the name of a queue"),
        ({"limit": 3}, "limit: only a map has it"),
        ({"arguments": {"id": float("inf")}}, "cannot be stored"),
        ({"timout": 3}, "unknown keyword 'timout'; did you mean 'timeout'?"),
        ({"name": "two words"}, "try 'two_words'"),
        ({"name": "x" * 101}, "use at most 100"),
        ({"name": "context"}, "reserved"),
        ({"name": "two", "action": "w.three"}, "names must be distinct"),
        ({"name": "gift"}, "the context has a field of this name"),
    ],
)
def test_a_bad_step_is_refused_with_a_hint(app: Stepwell, options: dict[str, Any], message: str) -> None:
    workflow = new(app, context=Order)
    workflow.step(name="one")(one)
    workflow.step(two)
    workflow.step(**{"name": "three", **options})(one)
    found = problems_of(workflow)
    assert len(found) == (1 if message else 0)
    assert not message or message in found[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"each": {}}, "expected one parameter"),
        ({"each": {"line": "context.lines", "other": "context.lines"}}, "expected one parameter"),
        ({"each": "context.lines"}, "expected one parameter"),
        ({"each": {"lne": "context.lines"}}, "no parameter 'lne'; did you mean 'line'?"),
        ({"each": {"line": "context.linse"}}, "did you mean 'lines'?"),
        ({"each": {"line": "context.id"}}, "'context.id' is int, not a list"),
        ({"each": {"line": "two"}}, "'two' is int, not a list"),
        ({"each": {"line": "context.lines"}, "limit": 0}, "limit: expected a whole number of at least 1"),
        ({"each": {"line": "two"}, "trigger": "all_ended"}, "use 'all_concluded'"),
    ],
)
def test_a_bad_map_is_refused(app: Stepwell, options: dict[str, Any], message: str) -> None:
    workflow = new(app, context=Order)
    workflow.step(one)
    workflow.step(two)
    workflow.step(**options)(of_line)
    found = problems_of(workflow)
    assert any(message in problem for problem in found), found


def test_the_elements_of_a_map_must_fit_its_parameter(app: Stepwell) -> None:
    workflow = new(app, context=Order)
    workflow.step(each={"line": "context.lines"})(of_number)
    (problem,) = problems_of(workflow)
    assert "parameter 'line' is annotated int" in problem


def test_a_limit_excludes_the_concurrency_key_of_the_job(app: Stepwell) -> None:
    job = app.job(concurrency_key="k")(of_line)
    workflow = new(app, context=Order)
    workflow.step(each={"line": "context.lines"}, limit=3)(job)
    assert "exclude each other" in problems_of(workflow)[0]


def test_a_bad_gate_is_refused(app: Stepwell) -> None:
    workflow = new(app)
    workflow.gate("one", result={"type": "nothing"}, expires="soon", after=["nobody"], trigger="never")
    found = "\n".join(problems_of(workflow))
    for message in (
        "not a valid JSON schema",
        "expires: expected a number",
        "unknown step 'nobody'",
        "unknown trigger",
    ):
        assert message in found


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"name": "a b"}, "name: 'a b' is not a valid name"),
        ({"version": 1.1}, "write it as text"),
        ({"version": "one two"}, "not a valid version"),
        ({"context": {"type": "objekt"}}, "not a valid JSON schema"),
        ({"context": object()}, "cannot be decoded from JSON"),
        ({"environments": {"production": {"oen": {"timeout": 1}}}}, "unknown step 'oen'; did you mean 'one'?"),
        ({"environments": {"production": {"one": {"after": []}}}}, "cannot differ between environments"),
        ({"environments": {"production": {"one": {"timeout": "x"}}}}, "environment 'production': step 'one': expected"),
    ],
)
def test_a_bad_workflow_is_refused(app: Stepwell, header: dict[str, Any], message: str) -> None:
    workflow = new(app, **{"name": "w", **header})
    workflow.step(one)
    found = problems_of(workflow)
    assert any(message in problem for problem in found), found


def test_a_bad_namespace_is_refused(app: Stepwell) -> None:
    workflow = app.workflows("my shop").workflow("w")
    assert "namespace: 'my shop' is not a valid name" in problems_of(workflow)[0]


def test_every_problem_is_reported_at_once(app: Stepwell) -> None:
    workflow = new(app, name="w w", context=Order)
    workflow.step(name="x", retry_limit=0, timeout="?", after=["nobody"], trigger="no")(two)
    workflow.step(name="y", when={"z": 1}, inputs={"one": "context.nothing"})(two)
    found = "\n".join(problems_of(workflow))
    for part in (
        "name: 'w w'",
        "retry_limit",
        "timeout",
        "'nobody'",
        "trigger 'no'",
        "'one' is neither",
        "'z'",
        "nothing",
    ):
        assert part in found


def test_a_step_of_another_workflow_is_refused(app: Stepwell) -> None:
    foreign = new(app, "first").step()(one)
    workflow = new(app, "second")
    workflow.step(after=[foreign])(one)
    assert any("belongs to default.first version 1" in problem for problem in problems_of(workflow))


def test_a_result_of_none_cannot_be_taken(app: Stepwell) -> None:
    workflow = new(app)
    workflow.step(name="one")(gift)
    workflow.step(two)
    assert "annotated int, but the value is None" in problems_of(workflow)[0]


def test_a_context_of_unknown_shape_does_not_refuse_paths(app: Stepwell) -> None:
    for number, schema in enumerate((None, {"type": "object"}, {"properties": {}, "additionalProperties": True})):
        workflow = new(app, f"w{number}", context=schema)
        workflow.step(when={"context.anything.at.all": 1}, inputs={"id": "context.id"})(one)
        assert problems_of(workflow) == []


def test_nested_fields_of_the_context_are_known(app: Stepwell) -> None:
    workflow = new(app, context={"properties": {"to": {"properties": {"city": {"type": "string"}}}}})
    workflow.step(when={"context.to.ctiy": "Paris"})(one)
    assert "'to' of the context has no 'ctiy'; did you mean 'city'?" in problems_of(workflow)[0]


def test_a_field_of_a_result_is_known(app: Stepwell) -> None:
    def paid() -> Receipt | None: ...

    workflow = new(app)
    workflow.step(paid)
    workflow.step(when={"paid.amonut": 1.0})(one)
    assert "did you mean 'amount'?" in problems_of(workflow)[0]
