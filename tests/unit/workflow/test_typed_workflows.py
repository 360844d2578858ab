"""Workflows are typed by their functions: mypy checks this file, and an ignore that is not needed is an error."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, assert_type

import pytest

from stepwell import Gate, InvalidRequest, Job, Stepwell, Workflow
from stepwell.workflow.run import Run
from tests.unit.workflow.shop import Approval, Label, Line, Order, Receipt


@dataclass
class Sync(Job):
    account: int

    def compute(self) -> str:
        return str(self.account)


class SyncLater(Job):
    async def compute(self) -> bytes:
        return b""


def results(app: Stepwell, run: Run) -> None:
    fulfil = app.workflows("shop").workflow("fulfil", version="2", context=Order)
    assert_type(fulfil, Workflow[Order])
    assert_type(app.workflows().workflow("any"), Workflow[Any])
    assert_type(app.workflows().workflow("schema", context={"type": "object"}), Workflow[Any])

    @fulfil.step(retry_limit=5, timeout=30)
    def payment(context: Order) -> Receipt:
        return Receipt(1.0)

    @fulfil.step(each={"line": "context.lines"}, limit=8)
    def label(line: Line, payment: Receipt) -> Label:
        return Label(1)

    @fulfil.step
    async def later(payment: Receipt) -> str:
        return ""

    @fulfil.step(each={"line": "context.lines"})
    async def later_each(line: Line) -> str:
        return ""

    approval = fulfil.gate("approval", after=[label, "later"], result=Approval)
    by_schema = fulfil.gate("by_schema", result={"type": "object"})
    sync = fulfil.step(arguments={"account": 1})(Sync)
    sync_later = fulfil.step()(SyncLater)
    sync_each = fulfil.step(name="each", each={"account": fulfil.step(numbers)})(Sync)
    job = fulfil.step(arguments={"number": 1})(app.job()(double))

    assert_type(run.result(payment), Receipt)
    assert_type(run.result(label, timeout=60), list[Label])
    assert_type(run.result(later), str)
    assert_type(run.result(later_each), list[str])
    assert_type(approval, Gate[Approval])
    assert_type(run.result(approval), Approval)
    assert_type(run.result(by_schema), Any)
    assert_type(run.result(sync), str)
    assert_type(run.result(sync_later), bytes)
    assert_type(run.result(sync_each), list[str])
    assert_type(run.result(job), int)
    assert_type(payment(Order(1)), Receipt)
    assert_type(label(Line("a"), payment=Receipt(1.0)), Label)
    assert_type(asyncio.run(later(Receipt(1.0))), str)


def numbers() -> list[int]:
    return [1, 2]


def double(number: int) -> int:
    return 2 * number


def test_the_context_of_a_start_is_typed(app: Stepwell) -> None:
    fulfil = app.workflows("shop").workflow("fulfil", context=Order)
    with pytest.raises(InvalidRequest):
        fulfil.start(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        fulfil.start(Order(1), initator="web")  # type: ignore[call-arg]


def test_what_is_typed_also_works(app: Stepwell) -> None:
    class Nothing(Run):
        def result(self, step: Any, timeout: float | None = None) -> Any: ...

    results(app, Nothing(app, "nothing"))
    template = app.workflows.get("fulfil", namespace="shop").check()
    assert [step.name for step in template if step.kind == "map"] == ["label", "later_each", "each"]
