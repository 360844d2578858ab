"""The handle that enqueue returns: await it, or ask it for the result."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID, uuid4

import pytest

from stepwell import Handle, Job, Permanent, Skip, StepDidNotConclude, StepTimeout, Stepwell, StepwellError, Stop
from stepwell.testing import ManualClock
from tests.conformance.support.engine import other_app

pytestmark = pytest.mark.sqlite_file  # whoever waits reads by another connection than whoever writes


class Side(Enum):
    BUY = "buy"


@dataclass
class Receipt:
    id: UUID
    amount: Decimal
    side: Side
    at: datetime


def test_a_result_comes_back_typed_by_the_signature(app: Stepwell, clock: ManualClock) -> None:
    @app.job()
    def pay(id: UUID, amount: Decimal, at: datetime, side: Side = Side.BUY) -> list[Receipt]:
        return [Receipt(id, amount, side, at)]

    id, at = uuid4(), clock.now()
    handle = pay.enqueue(id, Decimal("9.90"), at)
    app.run_until_idle()
    assert handle.result(timeout=0) == [Receipt(id, Decimal("9.90"), Side.BUY, at)]
    assert handle.step().response[0]["amount"] == "9.90"


@pytest.mark.parametrize("value", [0, False, "", [], None], ids=repr)
def test_a_falsy_result_is_a_result(app: Stepwell, value: object) -> None:
    handle = app.job(name="give")(lambda: value).enqueue()
    app.run_until_idle()
    assert handle.result(timeout=0) == value


def test_the_result_of_a_skipped_step_is_none_whatever_its_type(app: Stepwell) -> None:
    @app.job()
    def count() -> int:
        raise Skip("nothing to count")

    handle = count.enqueue()
    app.run_until_idle()
    assert handle.result(timeout=0) is None


@pytest.mark.parametrize(
    ("error", "said"),
    [(Permanent("card declined"), "is Failed: Permanent: card declined"), (Stop("limit"), "is Stopped: limit")],
    ids=["failed", "stopped"],
)
def test_a_step_that_did_not_conclude_is_raised_with_its_reason(app: Stepwell, error: Exception, said: str) -> None:
    @app.job(name="pay")
    def pay() -> int:
        raise error

    handle = pay.enqueue()
    app.run_until_idle()
    with pytest.raises(StepDidNotConclude, match=said) as caught:
        handle.result(timeout=0)
    assert caught.value.step == handle.step()
    assert f"step {handle.id} (pay)" in str(caught.value)


def test_a_cancelled_step_did_not_conclude(app: Stepwell) -> None:
    handle = app.job(name="pay")(lambda: None).enqueue()
    app.cancel(handle, who="tester", why="wrong amount")
    with pytest.raises(StepDidNotConclude, match="is Cancelled: operator: wrong amount"):
        handle.result(timeout=0)


def test_an_error_of_an_earlier_attempt_is_not_taken_for_the_reason_of_the_end(app: Stepwell) -> None:
    @app.job(name="pay", backoff=60)
    def pay() -> int:
        raise OSError("of the first attempt")

    handle = pay.enqueue()
    app.run_until_idle()
    app.cancel(handle, who="tester", why="wrong amount")
    with pytest.raises(StepDidNotConclude, match="is Cancelled: operator: wrong amount"):
        handle.result(timeout=0)


def test_a_timeout_says_why_the_step_has_not_ended(app: Stepwell, clock: ManualClock) -> None:
    pay = app.job(name="pay")(lambda: None)
    nobody = pay.enqueue()
    with pytest.raises(StepTimeout, match=rf"step {nobody.id} \(pay\) has not ended in 0 s: it is Pending; .*worker"):
        nobody.result(timeout=0)
    delayed = pay.options(delay=60).enqueue()
    with pytest.raises(TimeoutError) as caught:
        delayed.result(timeout=0)
    assert app.explain(delayed).summary in str(caught.value)
    clock.advance(61)
    app.run_until_idle()
    assert nobody.result(timeout=0) is None
    assert delayed.result(timeout=0) is None


def test_a_child_that_was_never_written_times_out_with_the_reason(app: Stepwell) -> None:
    leaf = app.job(name="leaf")(lambda: None)
    handles: list[Handle[Any]] = []

    class Fails(Job):
        def compute(self) -> None:
            handles.append(leaf.options(parent=self.step).enqueue())
            self.fail("no")

    app.job()(Fails).enqueue()
    app.run_until_idle()
    with pytest.raises(StepTimeout, match="is written when the code that creates it ends"):
        handles[0].result(timeout=0)


def test_the_handle_of_a_child_finds_it_when_it_is_written(app: Stepwell) -> None:
    handles: list[Handle[int]] = []

    @app.job()
    def leaf(number: int) -> int:
        return number

    class Parent(Job):
        def compute(self) -> None:
            handles.append(leaf.options(parent=self.step).enqueue(7))

    app.job()(Parent).enqueue()
    app.run_until_idle()
    assert handles[0].result(timeout=0) == 7


def test_a_result_that_is_not_of_its_type_raises_a_clear_error(app: Stepwell) -> None:
    @app.job()
    def count() -> int:
        return "seven"  # type: ignore[return-value]

    handle = count.enqueue()
    app.run_until_idle()
    with pytest.raises(StepwellError, match=r"does not match the job's signature .*Expected `int`, got `str`"):
        handle.result(timeout=0)


def test_result_waits_for_a_step_that_another_program_runs(shared_database_url: str, clock: ManualClock) -> None:
    with other_app(shared_database_url, clock) as here, other_app(shared_database_url, clock) as there:
        for app in (here, there):
            app.job(name="double")(lambda number: 2 * number)
        handle = here.jobs["double"].enqueue(21)
        results: list[Any] = []
        waiting = threading.Thread(target=lambda: results.append(handle.result(timeout=60)))
        waiting.start()
        there.run_until_idle()
        waiting.join(60)
        assert results == [42]


def test_handles_can_be_awaited_together(app: Stepwell) -> None:
    @app.job()
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    async def main() -> list[int]:
        handles = [await double.aenqueue(number) for number in range(3)]
        waiting = asyncio.gather(*handles)
        await asyncio.sleep(0)
        app.run_until_idle()
        return await waiting

    assert asyncio.run(main()) == [0, 2, 4]


def test_an_awaited_step_that_fails_raises_and_one_that_does_not_end_can_be_given_up(app: Stepwell) -> None:
    @app.job(retries=0)
    def fail() -> None:
        raise OSError("no")

    async def main() -> None:
        failed, waiting = fail.enqueue(), fail.options(delay=60).enqueue()
        app.run_until_idle()
        with pytest.raises(StepDidNotConclude, match="OSError: no"):
            await failed
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waiting, 0.01)

    asyncio.run(main())
