"""Results of runs: values of every kind, NOT_COMPLETED, results and arguments that do not fit."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from stepwell import NOT_COMPLETED, InvalidStep, Job, Stepwell
from stepwell.testing import ManualClock
from tests.conformance.support.jobs import Script, settle


@pytest.mark.parametrize("later", [False, True], ids=["at the end", "with a later stage"])
def test_every_result_is_a_result(app: Stepwell, clock: ManualClock, later: bool) -> None:
    hooks = {"complete": None} if later else {}
    results: list[Any] = [0, False, "", [], {}, 0.0, None, 1, "text", [None], {"a": {"b": []}}]
    for number, result in enumerate(results):
        step = Script(app, clock, {"name": f"job-{number}"}, compute=lambda job, result=result: result, **hooks).run()
        assert (step.state, step.response, type(step.response)) == ("Completed", result, type(result))


def test_a_result_may_be_set_on_the_step(app: Stepwell, clock: ManualClock) -> None:
    for number, result in enumerate([0, False, "", [], {"a": 1}]):

        def compute(job: Job, result: object = result) -> None:
            job.step.response = result

        response = Script(app, clock, {"name": f"job-{number}"}, compute=compute).run().response
        assert (response, type(response)) == (result, type(result))


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("result", "blamed"),
    [
        (float("nan"), "result: NaN"),
        ({"a": [1, object()]}, 'result["a"][1]'),
        ("nul \0", "result: contains a NUL"),
        ("x" * 1_100_000, "1,048,576"),
    ],
    ids=["nan", "object", "nul", "large"],
)
@pytest.mark.parametrize("later", [False, True], ids=["at the end", "with a later stage"])
def test_a_result_that_cannot_be_stored_fails_the_step_without_a_retry(
    app: Stepwell, clock: ManualClock, result: object, blamed: str, later: bool
) -> None:
    hooks = {"complete": None} if later else {}
    script = Script(app, clock, compute=lambda job: result, retry_exception=True, ignore_exception=True, **hooks)
    step = script.run()
    assert (step.state, step.reason, step.attempts) == ("Failed", "unstorable_result", 1)
    assert str(step.error_message).startswith("the result cannot be stored: ")
    assert blamed in str(step.error_message)
    assert script.calls == ["compute"]


# Not completed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [NOT_COMPLETED, SystemExit(3), SystemExit()], ids=["returned", "exit 3", "exit"])
def test_a_run_that_is_not_completed_is_repeated_after_the_cooldown_and_spends_no_retry(
    app: Stepwell, clock: ManualClock, word: Any
) -> None:
    script = Script(app, clock, compute=[word, "done"], retry_exception=True, ignore_exception=True)
    script.ref = script.job.options(retries=0, cooldown=2.5).enqueue()
    app.run_until_idle()
    step = script.step
    assert (step.state, step.reason, step.not_completed, step.retries) == ("Pending", "not_completed", 1, 0)
    assert step.dispatch_after == clock.now() + timedelta(seconds=2.5)
    assert (script.settle().state, script.step.response, script.calls) == ("Completed", "done", ["compute"] * 2)


def test_twenty_in_a_row_are_allowed_and_one_more_fails(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, {"name": "twenty"}, compute=[*[NOT_COMPLETED] * 20, "done"])
    assert (script.run().state, script.step.attempts) == ("Completed", 21)
    script = Script(app, clock, {"name": "more"}, compute=NOT_COMPLETED)
    step = script.run()
    assert (step.state, step.reason, step.attempts, step.retries) == ("Failed", "not_completed", 21, 0)
    assert step.error_message == "not completed after 21 runs"


@pytest.mark.one_database
def test_how_many_in_a_row_is_the_jobs_own_setting(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, {"name": "two", "max_not_completed": 2}, compute=NOT_COMPLETED)
    assert (script.run().state, script.step.attempts) == ("Failed", 3)
    script = Script(app, clock, {"name": "none", "max_not_completed": 0}, compute=NOT_COMPLETED)
    assert (script.run().state, script.step.attempts) == ("Failed", 1)


def test_only_those_in_a_row_count(app: Stepwell, clock: ManualClock) -> None:
    script = Script(
        app,
        clock,
        {"max_not_completed": 2},
        compute=[NOT_COMPLETED, NOT_COMPLETED, OSError("between"), NOT_COMPLETED, NOT_COMPLETED, "done"],
    )
    step = script.run()
    assert (step.state, step.retries, step.attempts) == ("Completed", 1, 6)


def test_an_operators_retry_begins_to_count_again(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, {"max_not_completed": 1}, compute=[*[NOT_COMPLETED] * 3, "done"])
    assert script.run().state == "Failed"
    app.retry(script.step, who="tester")
    assert script.settle().state == "Completed"


# Arguments that do not fit --------------------------------------------------------------------------------------


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [
        ({}, "missing a required argument: 'number'"),
        ({"number": "seven"}, "number: Expected `int`, got `str`"),
        ({"number": 7, "other": 1}, "unexpected keyword argument 'other'"),
    ],
    ids=["missing", "wrong type", "too many"],
)
def test_arguments_that_do_not_fit_fail_the_step_without_a_retry(
    app: Stepwell, clock: ManualClock, arguments: dict[str, Any], blamed: str
) -> None:
    ref = app.enqueue("take", arguments)  # by a program that does not know the job, or knew another one
    ran: list[int] = []

    @app.job()
    def take(number: int) -> None:
        ran.append(number)

    settle(app, clock)
    step = app.step(ref)
    assert (step.state, step.reason, step.attempts, ran) == ("Failed", "bad_arguments", 1, [])
    assert blamed in str(step.error_message)


@pytest.mark.one_database
def test_a_constructor_that_refuses_its_arguments_fails_the_step_but_other_errors_are_retried(
    app: Stepwell, clock: ManualClock
) -> None:
    tries: list[int] = []

    class Picky(Job):
        def __init__(self, number: int) -> None:
            tries.append(number)
            if number < 0:
                raise ValueError("a number of at least 0")
            if len(tries) < 3:
                raise ConnectionError("not now")

        def compute(self) -> int:
            return len(tries)

    picky = app.job()(Picky)
    bad, good = picky.enqueue(-1), picky.enqueue(1)
    settle(app, clock)
    assert (bad.step().reason, bad.step().attempts) == ("bad_arguments", 1)
    assert (good.result(timeout=0), good.step().retries) == (3, 1)


# Models -----------------------------------------------------------------------------------------------------------


class Fill(BaseModel):
    size: Decimal = Field(alias="sz")
    at: datetime


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int = Field(alias="orderNumber")
    fills: list[Fill] = []


@pytest.mark.one_database
def test_pydantic_models_go_in_and_out_by_their_aliases_also_in_lists(app: Stepwell, clock: ManualClock) -> None:
    @app.job()
    def merge(first: Order, others: list[Order]) -> list[Order]:
        assert isinstance(first.fills[0], Fill)
        return [first, *others]

    @app.job()
    def largest(order: Order) -> Fill:
        return max(order.fills, key=lambda fill: fill.size)

    order = Order.model_validate({"orderNumber": 7, "fills": [{"sz": "1.5", "at": "2026-01-01T00:00:00Z"}]})
    merged, best = merge.enqueue(order, others=[order]), largest.enqueue(order)
    app.run_until_idle()
    assert merged.result(timeout=0) == [order, order]
    assert best.result(timeout=0) == order.fills[0]
    stored = {"orderNumber": 7, "fills": [{"sz": "1.5", "at": "2026-01-01T00:00:00Z"}]}
    assert merged.step().arguments == {"first": stored, "others": [stored]}
    assert merged.step().response == [stored, stored]
    with pytest.raises(InvalidStep, match=r"order: .*Order"):
        largest.enqueue({"number": "seven"})  # type: ignore[arg-type]


class Quote(BaseModel):
    price: Decimal = Field(validation_alias="p", serialization_alias="price")
    size: int = Field(default=0, validation_alias="s")


@pytest.mark.one_database
def test_pydantic_models_that_are_read_and_written_by_different_names_go_in_and_out(
    app: Stepwell, clock: ManualClock
) -> None:
    @app.job()
    def double(quote: Quote) -> list[Quote]:
        return [quote.model_copy(update={"price": 2 * quote.price})]

    called = double.enqueue(Quote(p=Decimal("1.5"), s=7))  # type: ignore[call-arg]
    by_name = app.enqueue("double", {"quote": {"p": "1.5", "s": 7}})
    app.run_until_idle()
    assert called.result(timeout=0) == [Quote(p=Decimal("3.0"), s=7)]  # type: ignore[call-arg]
    assert called.step().response == app.step(by_name).response == [{"p": "3.0", "s": 7}]
