"""The order of one run: prepare, the guards, compute, the later stages; each hook may be a coroutine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import InvalidStep, Job, Stepwell, StepwellError
from stepwell.testing import ManualClock
from tests.conformance.support.jobs import HOOKS, Script, settle

RUN = list(HOOKS[:9])
GUARDS = ("start_or_stop", "start_or_fail", "start_or_skip", "start_or_retry")


@pytest.mark.one_database
def test_the_hooks_run_in_their_order(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, **dict.fromkeys(RUN, True))
    assert script.run().state == "Completed"
    assert script.calls == RUN


@pytest.mark.one_database
def test_a_hook_that_returns_none_does_not_object(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, **dict.fromkeys(RUN))
    step = script.run()
    assert (step.state, step.response, step.attempts) == ("Completed", None, 1)
    assert script.calls == RUN


@pytest.mark.one_database
def test_a_class_that_writes_only_compute_runs_only_that(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, compute="done")
    assert (script.run().response, script.calls) == ("done", ["compute"])


@pytest.mark.parametrize(
    ("guard", "state", "message"),
    [
        ("start_or_stop", "Stopped", None),
        ("start_or_fail", "Failed", "start_or_fail returned False"),
        ("start_or_skip", "Skipped", None),
    ],
)
def test_a_guard_that_returns_false_ends_the_step_before_compute(
    app: Stepwell, clock: ManualClock, guard: str, state: str, message: str | None
) -> None:
    script = Script(app, clock, **{**dict.fromkeys(GUARDS, True), guard: False})
    step = script.run()
    assert (step.state, step.reason, step.error_message) == (state, guard, message)
    assert (step.attempts, step.retries) == (1, 0)
    assert script.calls == list(GUARDS[: GUARDS.index(guard) + 1])


@pytest.mark.one_database
@pytest.mark.parametrize("no", [False, 0, "", []])
def test_every_falsy_answer_of_a_guard_counts_as_false(app: Stepwell, clock: ManualClock, no: object) -> None:
    # A list is one word for each call: here the word itself is an empty list.
    assert Script(app, clock, start_or_skip=lambda job: no).run().state == "Skipped"


@pytest.mark.one_database
def test_start_or_retry_spends_a_retry_each_time_and_runs_every_guard_again(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, start_or_stop=True, start_or_retry=[False, False, True], compute=1)
    step = script.run()
    assert (step.state, step.attempts, step.retries, step.response) == ("Completed", 3, 2, 1)
    assert script.calls == ["start_or_stop", "start_or_retry"] * 3 + ["compute"]
    assert script.errors == ["start_or_retry returned False"] * 2 + [None]


@pytest.mark.one_database
def test_start_or_retry_that_never_agrees_fails_when_the_retries_are_spent(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, start_or_retry=False)
    step = script.run(retries=2)
    assert (step.state, step.reason, step.attempts, step.retries) == ("Failed", "max_retries_reached", 3, 2)
    assert "compute" not in script.calls


@pytest.mark.one_database
def test_an_error_of_a_guard_is_an_error_like_any_other(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, start_or_skip=[OSError("not now"), True], compute=1)
    assert (script.run().state, script.errors) == ("Completed", ["OSError: not now", None])


@pytest.mark.one_database
def test_prepare_runs_in_every_attempt(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, prepare=None, compute=[OSError(), 1], complete=[OSError(), None])
    assert script.run().state == "Completed"
    assert script.calls == ["prepare", "compute", "prepare", "compute", "complete", "prepare", "complete"]


@pytest.mark.one_database
def test_every_hook_may_be_a_coroutine(app: Stepwell, clock: ManualClock) -> None:
    calls: list[str] = []

    def hook(name: str) -> Any:
        async def called(job: Job) -> str:
            await asyncio.sleep(0)
            calls.append(name)
            return name

        return called

    job = app.job(name="async")(type("Async", (Job,), {name: hook(name) for name in RUN}))
    handle = job.enqueue()
    app.run_until_idle()
    assert (calls, handle.result(timeout=0)) == (RUN, "compute")


@pytest.mark.one_database
def test_coroutine_hooks_and_plain_ones_mix(app: Stepwell) -> None:
    class Mixed(Job):
        async def start_or_skip(self) -> bool:
            await asyncio.sleep(0)
            return True

        def compute(self) -> int:
            return 1

        async def retry_exception(self, error: BaseException) -> bool:
            await asyncio.sleep(0)
            return False

        def complete(self) -> None:
            raise OSError("broken")

    ref = app.job()(Mixed).enqueue()
    app.run_until_idle()
    step = app.step(ref)
    assert (step.state, step.reason, step.response, step.attempts) == ("Failed", "error", 1, 1)


def test_a_coroutine_job_runs_inside_the_event_loop_of_the_caller_too(app: Stepwell) -> None:
    @app.job()
    async def fetch(number: int) -> int:
        await asyncio.sleep(0)
        return number + 1

    async def main() -> int:
        handle = await fetch.aenqueue(1)
        app.run_until_idle()
        return await handle

    assert asyncio.run(main()) == 2


@pytest.mark.one_database
@pytest.mark.parametrize("in_a_loop", [False, True])
def test_something_to_await_from_a_job_that_is_not_async_fails_it_at_once(app: Stepwell, in_a_loop: bool) -> None:
    async def inner() -> int:
        return 1

    @app.job()
    def outer() -> Any:
        return inner()

    ref = outer.enqueue()

    async def main() -> None:
        app.run_until_idle()

    asyncio.run(main()) if in_a_loop else app.run_until_idle()
    step = app.step(ref)
    assert (step.state, step.attempts) == ("Failed", 1)
    assert "outer returned an awaitable but is not async" in str(step.error_message)


@pytest.mark.one_database
def test_a_generator_is_refused_as_a_job(app: Stepwell) -> None:
    def numbers() -> Any:
        yield 1

    async def more() -> Any:
        yield 2

    for code in (numbers, more):
        with pytest.raises(StepwellError, match="a job cannot be a generator"):
            app.job()(code)


def test_the_order_of_a_run_cannot_be_overridden() -> None:
    with pytest.raises(TypeError, match="Stepwell controls the order of a run"):
        type("Mine", (Job,), {"handle": lambda self: None})


@pytest.mark.one_database
def test_a_class_takes_its_arguments_by_its_constructor_and_may_be_frozen(app: Stepwell, clock: ManualClock) -> None:
    @dataclass(frozen=True)
    class Sync(Job):
        account: int
        dry: bool = False

        def compute(self) -> list[object]:
            return [self.account, self.dry, self.step.attempts]

    sync = app.job()(Sync)
    handle = sync.enqueue(7, dry=True)
    settle(app, clock)
    assert handle.result(timeout=0) == [7, True, 1]
    assert handle.step().arguments == {"account": 7, "dry": True}
    with pytest.raises(InvalidStep, match="account"):
        sync.enqueue("seven")  # type: ignore[arg-type]


@pytest.mark.one_database
def test_calling_a_job_runs_it_here_and_now_without_a_step(app: Stepwell) -> None:
    @app.job()
    def double(number: int) -> int:
        return 2 * number

    assert double(21) == 42
    assert app.steps() == []
