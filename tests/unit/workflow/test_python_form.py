"""Workflows as they are written in Python."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from stepwell import Job, Outcome, Stepwell, StepwellError, WorkflowDefinitionError
from stepwell.workflow.template import Path
from tests.unit.workflow import shop
from tests.unit.workflow.shop import problems_of


def fetch(rows: int = 3) -> list[int]:
    return list(range(rows))


def other(rows: int = 3) -> list[int]:
    return [rows]


def total(fetch: list[int]) -> int:
    return sum(fetch)


def add(a: int, b: int) -> int:
    return a + b


async def later(fetch: list[int]) -> str:
    return f"{fetch}"


@dataclass
class Count(Job):
    fetch: list[int]

    def compute(self) -> int:
        return len(self.fetch)


def closure_over(value: int) -> Any:
    def inner() -> int:
        return value

    return inner


def test_the_example_of_the_specification_becomes_a_template(app: Stepwell) -> None:
    template = shop.declare_fulfil(app).check()
    assert {step.name: step.upstream for step in template} == {
        "payment": (),
        "wrapping": ("payment",),
        "label": ("payment",),
        "approval": ("label",),
        "parcel": ("label", "wrapping", "approval"),
        "report": ("payment", "parcel"),
    }
    assert [step.kind for step in template] == ["job", "job", "map", "gate", "job", "job"]
    assert template.step("payment").retry_limit == 5
    assert template.step("payment").timeout == 30
    assert template.step("approval").expires == timedelta(days=14).total_seconds()
    assert template.step("parcel").inputs[1].optional
    assert template.step("report").trigger == "all_ended"
    assert all(each.is_outcome for each in template.step("report").inputs)


def test_functions_stay_callable_as_they_are(app: Stepwell) -> None:
    workflow = app.workflows().workflow("w")
    declared_fetch = workflow.step()(fetch)
    declared_later = workflow.step(later)
    declared_count = workflow.step()(Count)
    assert declared_fetch(2) == [0, 1]
    assert asyncio.run(declared_later([1])) == "[1]"
    assert declared_count(fetch=[1, 2]).compute() == 2
    assert getattr(declared_fetch, "__name__", "") == "fetch"


def test_a_step_is_an_ordinary_job_under_its_action(app: Stepwell) -> None:
    app.workflows("shop").workflow("rows").step(retry_limit=5)(fetch)
    app.workflows().workflow("rows").step(retryable=False)(fetch)
    assert {"shop.rows.fetch", "rows.fetch"} <= app.jobs.actions()
    assert app.jobs["shop.rows.fetch"].settings["max_retries"] == 4
    assert app.jobs["rows.fetch"].settings["max_retries"] == 0
    step = app.enqueue("shop.rows.fetch", {"rows": 2})
    app.run_until_idle()
    assert app.step(step).response == [0, 1]


def test_three_attempts_are_the_default(app: Stepwell) -> None:
    workflow = app.workflows().workflow("w")
    workflow.step()(fetch)
    assert workflow.check().step("fetch").max_retries == 2
    assert app.jobs["w.fetch"].settings["max_retries"] == 2


def test_two_versions_share_the_code_of_an_action(app: Stepwell) -> None:
    for version in ("1", "2"):
        app.workflows().workflow("w", version=version).step(timeout=int(version))(fetch)
    one, two = app.workflows.check()
    assert one.step("fetch").action == two.step("fetch").action == "w.fetch"
    assert [one.step("fetch").timeout, two.step("fetch").timeout] == [1, 2]


def test_two_functions_for_one_action_are_refused(app: Stepwell) -> None:
    app.workflows().workflow("w", version="1").step(name="fetch")(fetch)
    second = app.workflows().workflow("w", version="2")
    second.step(name="fetch")(other)
    (problem,) = problems_of(second)
    assert "'w.fetch' is already that of other code" in problem
    third = app.workflows().workflow("w", version="3")
    third.step(name="fetch", action="w.other")(other)
    assert problems_of(third) == []


def test_a_registered_job_becomes_a_step_with_its_own_action_and_settings(app: Stepwell) -> None:
    job = app.job(name="rows", timeout=9, queue="slow", retries=7)(fetch)
    workflow = app.workflows().workflow("w")
    workflow.step()(job)
    workflow.step(name="quick", timeout=1)(job)
    template = workflow.check()
    step, quick = template
    assert (step.name, step.action, step.timeout, step.queue) == ("fetch", "rows", 9, "slow")
    assert (quick.action, quick.timeout, quick.queue) == ("rows", 1, "slow")
    assert step.retry_limit == 3, "attempts are the workflow's own"
    bad = app.workflows().workflow("bad")
    bad.step(action="others")(job)
    assert "registered as 'rows'" in problems_of(bad)[0]


def test_a_function_can_be_two_steps(app: Stepwell) -> None:
    workflow = app.workflows().workflow("w")
    eu = workflow.step(name="eu", arguments={"rows": 1})(fetch)
    workflow.step(name="us", arguments={"rows": 2})(fetch)
    workflow.step(name="sum_eu", inputs={"fetch": eu})(total)
    workflow.step(name="sum_us", inputs={"fetch": "us"})(total)
    workflow.step(inputs={"a": "sum_eu", "b": "sum_us"})(add)
    template = workflow.check()
    assert template.step("sum_eu").inputs[0].source == Path("eu")
    assert template.step("add").upstream == ("sum_eu", "sum_us")
    assert template.step("us").arguments == {"rows": 2}


def test_order_without_data_takes_steps_or_names(app: Stepwell) -> None:
    workflow = app.workflows().workflow("w")
    first = workflow.step(name="first")(fetch)
    workflow.step(name="second", after=["first"])(fetch)
    workflow.step(name="third", after=[first, "second"])(fetch)
    assert workflow.check().step("third").after == ("first", "second")


def test_a_dependency_by_data_and_by_order_is_one_dependency(app: Stepwell) -> None:
    one, two = app.workflows().workflow("w", version="1"), app.workflows().workflow("w", version="2")
    for workflow, after in ((one, []), (two, ["fetch"])):
        workflow.step()(fetch)
        workflow.step(after=after)(total)
    assert one.check().steps == two.check().steps


def test_closures_and_lambdas_are_refused(app: Stepwell) -> None:
    workflow = app.workflows().workflow("w")
    workflow.step(name="one")(closure_over(1))
    workflow.step(name="two")(lambda: 3)
    closure, nameless = problems_of(workflow)
    assert "is a closure" in closure
    assert "value" in closure
    assert "lambda" in nameless


def test_a_local_function_that_captures_nothing_is_accepted(app: Stepwell) -> None:
    workflow = app.workflows().workflow("w")

    @workflow.step
    def local() -> int:
        return 1

    assert workflow.check().step("local").code.endswith("<locals>.local")


def test_what_cannot_run_as_a_step_is_refused(app: Stepwell) -> None:
    workflow: Any = app.workflows().workflow("w")
    workflow.step(name="number")(3)

    @workflow.step()
    def endless() -> Any:
        yield 1

    @workflow.step()
    def positional(one: int, /) -> int:
        return one

    number, generator, by_position = problems_of(workflow)
    assert "cannot run as a step" in number
    assert "generator" in generator
    assert "by name" in by_position


def test_nothing_can_be_added_once_it_is_in_use(app: Stepwell) -> None:
    workflow = app.workflows().workflow("w")
    workflow.step(fetch)
    workflow.check()
    with pytest.raises(StepwellError, match="already in use"):
        workflow.step(total)


def test_the_start_of_a_worker_checks_every_workflow(app: Stepwell) -> None:
    for name in ("one", "two"):
        app.workflows().workflow(name).step()(total)
    for start in (app.run_until_idle, app.worker, app.inline_runner):
        with pytest.raises(WorkflowDefinitionError) as error:
            start()
        assert len(error.value.problems) == 2


def test_the_queues_of_every_version_and_environment_are_known(app: Stepwell) -> None:
    overrides = {"production": {"fetch": {"queue": "three"}}}
    app.workflows().workflow("w", version="1").step(queue="one")(fetch)
    app.workflows().workflow("w", version="2", environments=overrides).step(queue="two")(fetch)
    app.workflows.check()
    assert {"one", "two", "three"} <= app.queues()


def test_a_step_is_found_by_its_name(app: Stepwell) -> None:
    fulfil = shop.declare_fulfil(app)
    assert fulfil["payment"].name == "payment"
    with pytest.raises(KeyError, match="did you mean 'payment'"):
        fulfil["paymnt"]


def test_an_outcome_has_state_result_and_error() -> None:
    import msgspec

    stored = {"state": "Failed", "error": "card declined"}
    outcome = msgspec.convert(stored, Outcome[shop.Receipt])
    assert (outcome.completed, outcome.concluded, outcome.result, outcome.error) == (
        False,
        False,
        None,
        "card declined",
    )
    done = msgspec.convert({"state": "Completed", "result": {"amount": 1.5}}, Outcome[shop.Receipt])
    assert done.result == shop.Receipt(1.5)
    assert done.completed
