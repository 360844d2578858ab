"""Exceptions: how each ends or repeats the step, and in which order the hooks are asked."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any

import pytest

from stepwell import (
    DatabaseBusy,
    DatabaseUnavailable,
    Job,
    JustEnd,
    JustResolve,
    MaxRetriesReached,
    NewStep,
    NonNotifiable,
    Permanent,
    Reschedule,
    Retry,
    Skip,
    Stepwell,
    Stop,
)
from stepwell.define.outcomes import Fail
from stepwell.events import FailureNotification
from stepwell.run.finish import Finisher
from stepwell.store import Conflict, Transaction
from stepwell.testing import ManualClock
from tests.conformance.support.jobs import Script

ASKED = ("retry_exception", "ignore_exception", "resolve_exception")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("error", "state", "reason", "message"),
    [
        (JustEnd(), "Skipped", "skipped", None),
        (JustEnd("enough for today"), "Skipped", "enough for today", None),
        (Skip("nothing to do"), "Skipped", "nothing to do", None),
        (Stop("limit reached"), "Stopped", "limit reached", None),
        (Stop("max_retries_reached"), "Stopped", "job: max_retries_reached", None),
        (Fail("card declined"), "Failed", "error", "Fail: card declined"),
        (Fail(KeyError("card")), "Failed", "error", "KeyError: 'card'"),
        (NonNotifiable("known"), "Failed", "error", "NonNotifiable: known"),
        (MaxRetriesReached("that is enough"), "Failed", "max_retries_reached", "MaxRetriesReached: that is enough"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_an_exception_with_one_meaning_ends_the_step_at_once_and_asks_no_hook(
    app: Stepwell, clock: ManualClock, error: Exception, state: str, reason: str, message: str | None
) -> None:
    script = Script(app, clock, compute=error, **dict.fromkeys(ASKED, True))
    step = script.run()
    assert (step.state, step.reason, step.error_message) == (state, reason, message)
    assert (step.attempts, step.retries) == (1, 0)
    assert script.calls == ["compute"]


def test_any_exception_is_retried_while_retries_remain_and_three_are_the_default(
    app: Stepwell, clock: ManualClock
) -> None:
    script = Script(app, clock, compute=[OSError("one"), KeyError("two"), ValueError("three"), TypeError("four")])
    step = script.run()
    assert (step.state, step.reason, step.attempts, step.retries) == ("Failed", "max_retries_reached", 4, 3)
    assert step.error_message == "OSError: one"
    assert "OSError: one" in str(step.error_stack_trace)
    assert "test_exceptions" in str(step.error_stack_trace) or "support/jobs" in str(step.error_stack_trace)
    assert script.errors == ["OSError: one", "KeyError: 'two'", "ValueError: three", "TypeError: four"]


def test_a_job_without_retries_fails_with_its_error(app: Stepwell, clock: ManualClock) -> None:
    step = Script(app, clock, compute=OSError("one")).run(retries=0)
    assert (step.state, step.reason, step.attempts) == ("Failed", "error", 1)


def test_a_step_that_succeeds_in_the_end_keeps_its_first_error(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, compute=[OSError("one"), OSError("two"), "fine"])
    step = script.run()
    assert (step.state, step.response, step.error_message) == ("Completed", "fine", "OSError: one")
    assert script.errors == ["OSError: one", "OSError: two", None]


@pytest.mark.one_database
def test_the_hooks_are_asked_in_their_order(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, compute=OSError("one"), **dict.fromkeys(ASKED, False))
    step = script.run()
    assert (step.state, step.reason, step.attempts) == ("Failed", "error", 1)
    assert script.calls == ["compute", *ASKED]


@pytest.mark.one_database
def test_retry_exception_overrules_the_settings_in_both_directions(app: Stepwell, clock: ManualClock) -> None:
    never = Script(app, clock, {"name": "never", "retry_on": ()}, compute=[OSError(), 1], retry_exception=True)
    assert (never.run().state, never.step.retries) == ("Completed", 1)
    always = Script(app, clock, {"name": "always"}, compute=[OSError(), 1], retry_exception=False)
    assert (always.run().state, always.step.reason) == ("Failed", "error")


@pytest.mark.one_database
def test_retry_exception_that_returns_none_leaves_it_to_the_settings(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, {"retry_on": OSError}, compute=[OSError(), KeyError("k")], retry_exception=None)
    assert (script.run().state, script.step.reason, script.step.attempts) == ("Failed", "error", 2)


@pytest.mark.one_database
@pytest.mark.parametrize(
    "rule", [OSError, (OSError, LookupError), [OSError, LookupError], lambda error: isinstance(error, OSError)]
)
def test_retry_on_takes_a_type_many_types_or_a_function(app: Stepwell, clock: ManualClock, rule: Any) -> None:
    script = Script(app, clock, {"retry_on": rule}, compute=[TimeoutError("an OSError"), ValueError("another")])
    assert (script.run().state, script.step.attempts, script.step.reason) == ("Failed", 2, "error")


@pytest.mark.parametrize("hook", ["ignore_exception", "resolve_exception"])
def test_an_error_that_is_ignored_or_resolved_leaves_the_own_code_done_and_is_kept(
    app: Stepwell, clock: ManualClock, hook: str
) -> None:
    def compute(job: Job) -> None:
        job.step.response = "half"
        raise OSError("one")

    script = Script(app, clock, compute=compute, retry_exception=False, **{hook: True})
    step = script.run()
    assert (step.state, step.error_message, step.response) == ("Completed", "OSError: one", "half")
    assert step.own_code_done_at is not None
    assert script.errors == ["OSError: one"]
    assert script.calls == ["compute", "retry_exception", hook]


def test_an_ignored_error_of_a_later_stage_keeps_the_recorded_result(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, {"retries": 0}, compute="result", complete=OSError("one"), ignore_exception=True)
    step = script.run()
    assert (step.state, step.response, step.error_message) == ("Completed", "result", "OSError: one")


@pytest.mark.one_database
@pytest.mark.parametrize("error", [OSError("one"), KeyError("k"), Permanent("gone")], ids=repr)
def test_when_the_retries_are_spent_an_error_fails_the_step_and_no_hook_is_asked(
    app: Stepwell, clock: ManualClock, error: Exception
) -> None:
    hooks = {"ignore_exception": True, "resolve_exception": True}
    script = Script(app, clock, {"retries": 1, "retry_on": OSError}, compute=[OSError("zero"), error], **hooks)
    step = script.run()
    assert (step.state, step.reason, step.attempts) == ("Failed", "max_retries_reached", 2)
    assert script.calls == ["compute", "compute"]
    assert len(script.errors) == 2


@pytest.mark.one_database
@pytest.mark.parametrize("hook", ["ignore_exception", "resolve_exception"])
def test_a_job_without_retries_has_none_to_spend_and_its_hooks_are_asked(
    app: Stepwell, clock: ManualClock, hook: str
) -> None:
    script = Script(app, clock, {"retries": 0}, compute=OSError("one"), **{hook: True})
    assert (script.run().state, script.calls) == ("Completed", ["compute", hook])


@pytest.mark.one_database
def test_just_resolve_is_no_error_and_runs_in_the_last_attempt_too(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, {"retries": 1}, compute=[OSError("one"), JustResolve()], resolve_exception=None)
    assert (script.run().state, script.calls) == ("Completed", ["compute", "compute", "resolve_exception"])


def test_a_lost_database_is_not_the_steps_fault_in_its_last_attempt_either(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, {"retries": 1}, compute=[OSError("one"), DatabaseUnavailable("gone"), 1])
    assert (script.run().state, script.reasons) == ("Completed", ["retry", "handed_back", None])


def test_just_resolve_runs_resolve_exception_and_the_own_code_is_done(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, compute=JustResolve("mend it"), **dict.fromkeys(ASKED, False))
    step = script.run()
    assert (step.state, step.error_message, step.attempts) == ("Completed", "JustResolve: mend it", 1)
    assert script.calls == ["compute", "resolve_exception"]


@pytest.mark.one_database
def test_permanent_is_not_retried_but_may_be_ignored(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, {"name": "one"}, compute=Permanent("gone"), retry_exception=True)
    assert (script.run().state, script.step.reason, script.calls) == ("Failed", "error", ["compute"])
    script = Script(app, clock, {"name": "two"}, compute=Permanent("gone"), ignore_exception=True)
    assert script.run().state == "Completed"


def test_retry_spends_a_retry_and_sets_the_time_of_the_next_attempt(app: Stepwell, clock: ManualClock) -> None:
    moment = clock.now() + timedelta(hours=1)
    for number, (error, due) in enumerate(
        [
            (Retry("later", in_=0.25), clock.now() + timedelta(seconds=0.25)),
            (Retry("later", at=moment), moment),
            (Retry("later"), clock.now() + timedelta(seconds=1)),
        ]
    ):
        script = Script(app, clock, {"name": f"job-{number}", "retry_on": ()}, compute=[error, 1])
        script.ref = script.job.enqueue()
        app.run_until_idle()
        step = script.step
        assert (step.state, step.reason, step.retries, step.dispatch_after) == ("Pending", "retry", 1, due)
        assert (step.error_message, step.is_throttled) == ("Retry: later", False)


def test_retry_fails_the_step_when_none_is_left_and_asks_no_hook(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, compute=Retry("again"), **dict.fromkeys(ASKED, True))
    step = script.run(retries=1)
    assert (step.state, step.reason, step.attempts) == ("Failed", "max_retries_reached", 2)
    assert script.calls == ["compute", "compute"]


def test_reschedule_throttles_and_spends_nothing(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, compute=[Reschedule(in_=30), 1])
    script.ref = script.job.options(retries=0).enqueue()
    app.run_until_idle()
    step = script.step
    assert (step.state, step.reason, step.retries, step.is_throttled) == ("Pending", "throttled", 0, True)
    assert step.dispatch_after == clock.now() + timedelta(seconds=30)
    step = script.settle()
    assert (step.state, step.is_throttled, step.was_throttled) == ("Completed", False, True)


class Timestamp(datetime):
    """As pandas and others have their own datetimes."""


class Undecided(tzinfo):
    def utcoffset(self, when: datetime | None) -> None:
        return None

    dst = tzname = utcoffset


@pytest.mark.one_database
@pytest.mark.parametrize("word", ["retry", "retry_job", "reschedule"])
@pytest.mark.parametrize(
    "said",
    [
        ((60,), {}),
        ((60.0,), {}),
        ((Decimal(60),), {}),
        ((timedelta(minutes=1),), {}),
        ((datetime(2026, 1, 1, 0, 1, tzinfo=UTC),), {}),
        (("not yet",), {"in_": timedelta(minutes=1)}),
        (("not yet",), {"at": datetime(2026, 1, 1, 2, 1, tzinfo=timezone(timedelta(hours=2)))}),
        ((Timestamp(2026, 1, 1, 0, 1, tzinfo=UTC),), {}),
    ],
    ids=str,
)
def test_a_time_may_come_first_and_has_many_forms(app: Stepwell, clock: ManualClock, word: str, said: Any) -> None:
    args, kwargs = said
    script = Script(app, clock, compute=[lambda job: getattr(job, word)(*args, **kwargs), 1])
    script.ref = script.job.enqueue()
    assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC)
    app.run_until_idle()
    step = script.step
    assert (step.state, step.dispatch_after) == ("Pending", clock.now() + timedelta(minutes=1))
    if word != "reschedule":
        assert step.error_message == ("Retry: not yet" if "not yet" in args else "Retry: retry")


@pytest.mark.one_database
@pytest.mark.parametrize("word", ["retry", "reschedule"])
@pytest.mark.parametrize(
    "said",
    [
        {"at": datetime(2026, 1, 1)},
        {"at": datetime(2026, 1, 1, tzinfo=Undecided())},
        {"at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))},
        {"at": datetime.min.replace(tzinfo=timezone(timedelta(hours=12)))},
        {"at": datetime(999, 1, 1, tzinfo=UTC)},
        {"at": "tomorrow"},
        {"in_": float("nan")},
        {"in_": float("inf")},
        {"in_": Decimal("sNaN")},
        {"in_": 10**400},
        {"in_": 1e18},
        {"in_": -1},
        {"in_": timedelta.max},
        {"in_": "60"},
        {"in_": True},
        {"in_": 5, "at": datetime(2026, 1, 1, tzinfo=UTC)},
        {"message": 60, "in_": 5},
        {"message": datetime(2026, 1, 1)},
        {"message": True},
        {"message": ["later"]},
    ],
    ids=lambda said: ascii(said)[:60],
)
def test_a_time_that_cannot_be_kept_is_an_error_of_the_job_like_any_other(
    app: Stepwell, clock: ManualClock, word: str, said: dict[str, Any]
) -> None:
    script = Script(app, clock, compute=[lambda job: getattr(job, word)(**said), 1])
    step = script.run()
    assert (step.state, step.attempts, step.retries) == ("Completed", 2, 1)
    assert str(step.error_message).startswith(("ValueError: ", "TypeError: "))
    assert step.error_stack_trace


def test_a_lost_database_is_never_the_steps_fault(app: Stepwell, clock: ManualClock) -> None:
    outages: list[Any] = [DatabaseUnavailable("gone")] * 6
    script = Script(app, clock, compute=[*outages, 1], **dict.fromkeys(ASKED, True))
    step = script.run(retries=0)
    assert (step.state, step.attempts, step.retries, step.error_message) == ("Completed", 1, 0, None)
    assert script.reasons == ["handed_back"] * 6 + [None]
    assert script.calls == ["compute"] * 7


def test_a_busy_database_is_an_error_like_any_other(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, {"retries": 2}, compute=DatabaseBusy("busy"))
    step = script.run()
    assert (step.state, step.reason, step.attempts, step.retries) == ("Failed", "max_retries_reached", 3, 2)
    assert (step.error_message, script.reasons[0]) == ("DatabaseBusy: busy", "retry")


def test_a_busy_database_is_not_the_fault_of_a_step_whose_work_is_done(
    app: Stepwell, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(app, clock, {"retries": 0}, complete=None)
    answers = [DatabaseBusy("busy"), None]
    record = Finisher.record

    def record_or_be_busy(*said: Any) -> bool:
        if (error := answers.pop(0)) is not None:
            raise error
        return record(*said)

    monkeypatch.setattr(Finisher, "record", record_or_be_busy)
    step = script.run()
    assert (step.state, step.attempts, step.retries, script.reasons[0]) == ("Completed", 1, 0, "handed_back")


@pytest.mark.parametrize(("cause", "kind"), [(DatabaseUnavailable("gone"), DatabaseUnavailable), (None, DatabaseBusy)])
def test_dead_connections_are_an_outage_and_anybody_in_the_way_is_not(
    app: Stepwell, cause: Exception | None, kind: type[Exception]
) -> None:
    def meet_a_conflict(tx: Transaction) -> None:
        raise Conflict("again") from cause

    with pytest.raises(DatabaseUnavailable, match=r"stayed busy.*pass its `connection=` to enqueue, or commit") as met:
        app.database.transact(meet_a_conflict)
    assert met.type is kind


@pytest.mark.one_database
def test_a_stop_iteration_is_recorded_as_such(app: Stepwell, clock: ManualClock) -> None:
    @app.job(retries=0)
    async def later() -> Any:
        return next(iter(()))

    handle = later.enqueue()
    step = Script(app, clock, {"retry_on": StopIteration}, compute=[lambda job: next(iter(())), 1]).run()
    assert (step.state, step.retries, step.error_message) == ("Completed", 1, "StopIteration")
    assert handle.step().error_message == "StopIteration"


@pytest.mark.one_database
@pytest.mark.parametrize("error", [GeneratorExit(), asyncio.CancelledError("inner"), BaseException("bare")], ids=repr)
def test_what_is_no_exception_but_ends_programs_fails_a_job_like_any_error(
    app: Stepwell, clock: ManualClock, error: BaseException
) -> None:
    script = Script(app, clock, compute=[error, 1])
    assert (script.run().state, script.step.retries) == ("Completed", 1)


@pytest.mark.one_database
def test_an_exception_that_cannot_print_itself_is_recorded(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, compute=Unprintable())
    step = script.run(retries=0)
    assert (step.state, step.error_message) == ("Failed", "Unprintable: <its text cannot be printed>")
    assert step.error_stack_trace
    script = Script(app, clock, {"name": "stop"}, compute=type("Unsaid", (Stop,), {"__str__": Unprintable.__str__})())
    assert (script.run().state, script.step.reason) == ("Stopped", "stopped")


@pytest.mark.parametrize("text", ["nul \0", "surrogate \ud800", "x" * 100_000], ids=["nul", "surrogate", "long"])
def test_a_message_that_a_database_would_not_take_is_recorded(app: Stepwell, clock: ManualClock, text: str) -> None:
    step = Script(app, clock, compute=ValueError(text)).run(retries=0)
    assert step.state == "Failed"
    assert str(step.error_message).startswith("ValueError: " + text[:3])
    assert len(str(step.error_message)) < 10_000


@pytest.mark.one_database
@pytest.mark.parametrize("hook", ASKED)
def test_a_hook_that_raises_fails_the_step_and_both_errors_are_recorded(
    app: Stepwell, clock: ManualClock, hook: str
) -> None:
    hooks = {**dict.fromkeys(ASKED, False), hook: ZeroDivisionError("in the hook")}
    step = Script(app, clock, compute=OSError("in compute"), **hooks).run()
    assert (step.state, step.error_message) == ("Failed", "ZeroDivisionError: in the hook")
    assert "OSError: in compute" in str(step.error_stack_trace)


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("word", "state"), [(Retry(in_=1), "Completed"), (Skip("known"), "Skipped"), (Stop("no"), "Stopped")]
)
def test_a_hook_may_end_the_run_in_its_own_way(app: Stepwell, clock: ManualClock, word: Any, state: str) -> None:
    def resolve(job: Job, error: BaseException) -> None:
        raise word

    script = Script(app, clock, compute=[OSError("one"), 1], retry_exception=False, resolve_exception=resolve)
    assert script.run().state == state


@pytest.mark.one_database
def test_the_names_of_the_ancestor_do_the_same(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, {"name": "a"}, compute=[lambda job: job.retry_job("again", in_=1), 1])
    assert (script.run().state, script.step.retries, script.errors[0]) == ("Completed", 1, "Retry: again")
    script = Script(app, clock, {"name": "b"}, compute=lambda job: job.report_and_fail(ValueError("bad")))
    assert (script.run().state, script.step.error_message) == ("Failed", "ValueError: bad")
    script = Script(app, clock, {"name": "c"}, compute=lambda job: job.handle_exception(Skip("so")))
    assert (script.run().state, script.step.reason) == ("Skipped", "so")


def test_a_failure_is_published_to_subscribers_unless_it_is_non_notifiable(app: Stepwell, clock: ManualClock) -> None:
    told: list[tuple[str, str | None, str | None]] = []
    app.events.on(FailureNotification)(lambda event: told.append((event.action, event.reason, event.error)))
    Script(app, clock, {"name": "silent"}, compute=NonNotifiable("known")).run()
    Script(app, clock, {"name": "loud"}, compute=Permanent("new")).run()
    Script(app, clock, {"name": "retried"}, compute=[OSError("once"), 1]).run()
    Script(app, clock, {"name": "stopped"}, compute=Stop("no")).run()
    stray = NewStep(action="loud", depends_on=["00000000-0000-4000-8000-000000000000"])
    Script(app, clock, {"name": "parent"}, compute=lambda job: job.children(stray) and None).run()
    assert [(action, reason) for action, reason, _ in told] == [("loud", "error"), ("parent", "bad_children")]
    assert told[0][2] == "Permanent: new"
