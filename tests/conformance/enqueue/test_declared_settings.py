"""The settings of a job hold whoever creates its steps: plain SQL, or a program that has no code of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from stepwell import InvalidStep, NewStep, Step, Stepwell, StepwellError
from stepwell.testing import ManualClock
from tests.conformance.support.engine import in_processes, other_app

SETTINGS: dict[str, Any] = {
    "queue": "emails", "retries": 0, "timeout": 5, "cooldown": 2, "priority": "high", "concurrency_limit": 3,
    "concurrency_key": "to:{to}",
}  # fmt: skip
DECLARED = ("emails", "high", 0, 5.0, 2.0, "to:ann", 3)
GENERAL = ("default", "default", 3, 0.0, 0.0, None, 1)


@pytest.fixture
def clock() -> ManualClock:
    """Rows that plain SQL writes bear the time of the real database: the engine's must come after it."""
    return ManualClock(datetime(2100, 1, 1, tzinfo=UTC))


@pytest.fixture
def bare(app: Stepwell, clock: ManualClock) -> Iterator[Stepwell]:
    """A program on the same database that has no jobs (in memory: the same program, before it has them)."""
    if app.database.url == "sqlite://":
        yield app
    else:
        with other_app(app.database.url, clock) as other:
            yield other


def declare(app: Stepwell, clock: ManualClock, name: str = "mail", **settings: Any) -> None:
    """What a worker of a program with this job records."""
    with_job = Stepwell(app.database.url, clock=clock)
    if app.database.url == "sqlite://":
        with_job._attached.database = app.database

    @with_job.job(name=name, **{**SETTINGS, **settings})
    def mail(to: str, copies: int = 1) -> None: ...

    with_job.record_jobs()
    if app.database.url != "sqlite://":
        with_job.close()


def settings_of(step: Step) -> tuple[Any, ...]:
    return (
        step.queue, step.priority, step.max_retries, step.timeout, step.cooldown, step.concurrency_key,
        step.concurrency_limit,
    )  # fmt: skip


def insert(app: Stepwell, columns: str, values: str) -> Step:
    app.database.transact(lambda tx: tx.execute(f"INSERT INTO steps ({columns}) VALUES ({values})", {}))
    app.dispatch_once()
    return app.steps()[0]


def test_what_a_row_of_plain_sql_leaves_out_is_as_the_job_declares(bare: Stepwell, clock: ManualClock) -> None:
    declare(bare, clock)
    assert settings_of(insert(bare, "action, arguments", """'mail', '{"to": "ann"}'""")) == DECLARED


def test_null_in_a_row_of_plain_sql_is_the_same_as_nothing(bare: Stepwell, clock: ManualClock) -> None:
    declare(bare, clock)
    nulls = "queue, priority, max_retries, timeout, cooldown, concurrency_key, concurrency_limit"
    step = insert(bare, f"action, arguments, {nulls}", """'mail', '{"to": "ann"}'""" + ", NULL" * 7)
    assert settings_of(step) == DECLARED


def test_what_a_row_of_plain_sql_names_is_taken_even_if_it_is_the_general_default(
    bare: Stepwell, clock: ManualClock
) -> None:
    declare(bare, clock)
    names = "queue, priority, max_retries, timeout, cooldown, concurrency_key, concurrency_limit"
    step = insert(bare, f"action, {names}", "'mail', 'default', 'default', 3, 0, 0, 'mine', 1")
    assert settings_of(step) == ("default", "default", 3, 0.0, 0.0, "mine", 1)


def test_a_row_of_a_job_that_nobody_has_declared_gets_the_general_defaults(bare: Stepwell) -> None:
    assert settings_of(insert(bare, "action", "'mail'")) == GENERAL


def test_enqueue_by_name_takes_what_it_leaves_out_from_the_declaration(bare: Stepwell, clock: ManualClock) -> None:
    declare(bare, clock)
    assert settings_of(bare.step(bare.enqueue("mail", {"to": "ann"}))) == DECLARED
    own = bare.enqueue("mail", {"to": "ann"}, retries=3, timeout=0, queue="default", concurrency_key="{mine}")
    assert settings_of(bare.step(own)) == ("default", "high", 3, 0.0, 2.0, "{mine}", 3)


def test_many_at_once_take_it_too_and_keep_their_ties(bare: Stepwell, clock: ManualClock) -> None:
    declare(bare, clock)
    parent = NewStep(action="mail", arguments={"to": "ann"})
    child = NewStep(action="other", parent=parent)
    made = [bare.step(ref) for ref in bare.enqueue_many([child, parent])]
    assert settings_of(made[1]) == DECLARED
    assert made[0].parent_step_id == made[1].id
    assert (made[0].max_retries, made[0].priority) == (3, "high")  # its parent's


def test_a_declared_queue_exists_before_any_step_is_in_it(bare: Stepwell, clock: ManualClock) -> None:
    declare(bare, clock, queue="letters")
    assert bare.step(bare.enqueue("mail", {"to": "ann"})).queue == "letters"


def test_a_new_declaration_holds_for_new_steps_only(bare: Stepwell, clock: ManualClock) -> None:
    declare(bare, clock)
    old = bare.enqueue("mail", {"to": "ann"})
    declare(bare, clock, retries=9, concurrency_key=None)
    assert settings_of(bare.step(bare.enqueue("mail", {"to": "ann"}))) == ("emails", "high", 9, 5.0, 2.0, None, 3)
    assert settings_of(bare.step(old)) == DECLARED


def test_a_declaration_that_has_not_changed_is_not_written_again(bare: Stepwell, clock: ManualClock) -> None:
    declare(bare, clock)
    (before,) = bare.reader.jobs()
    clock.advance(60)
    declare(bare, clock)
    assert bare.reader.jobs() == [before]
    declare(bare, clock, timeout=6)
    (after,) = bare.reader.jobs()
    assert (after.timeout, after.recorded_at > before.recorded_at) == (6.0, True)


def test_the_inline_runner_and_workers_record_what_their_jobs_declare(app: Stepwell) -> None:
    @app.job(name="seen", retries=1)
    def seen() -> None: ...

    app.run_until_idle()
    assert [(row.name, row.max_retries) for row in app.reader.jobs()] == [("seen", 1)]


# Before any worker ------------------------------------------------------------------------------------


def test_steps_that_are_older_than_any_worker_are_settled_when_one_records_their_job(
    bare: Stepwell, clock: ManualClock
) -> None:
    alone = bare.enqueue("mail", {"to": "ann"})
    several = bare.enqueue_many([NewStep(action="mail", arguments={"to": "ann"}) for _ in range(3)])
    row = insert(bare, "action, arguments", """'mail', '{"to": "ann"}'""")
    made = [*map(bare.step, [alone, *several]), row]
    assert {settings_of(step) for step in made} == {GENERAL}
    declare(bare, clock)
    assert {settings_of(bare.step(step)) for step in made} == {DECLARED}
    agenda = bare.database.read(
        lambda tx: tx.fetch("SELECT queue, rank, concurrency_key, key_blocked FROM steps_agenda", {})
    )
    assert {tuple(entry.values()) for entry in agenda} == {("emails", 0, "to:ann", True)}
    assert bare.database.read(lambda tx: tx.fetch("SELECT * FROM steps_unsettled", {})) == []


def test_what_such_a_step_was_given_stays(bare: Stepwell, clock: ManualClock) -> None:
    own = bare.enqueue("mail", {"to": "ann"}, retries=3, timeout=0, queue="default", concurrency_key="mine")
    declare(bare, clock)
    assert settings_of(bare.step(own)) == ("default", "high", 3, 0.0, 2.0, "mine", 3)


def test_a_step_settled_late_runs_as_declared(app: Stepwell) -> None:
    step = app.enqueue("mail", {"to": "ann"})
    plain = insert(app, "action, arguments", """'mail', '{"to": "bob"}'""")
    tries: list[str] = []

    @app.job(**{**SETTINGS, "concurrency_limit": 1})
    def mail(to: str) -> None:
        tries.append(to)
        raise ValueError

    app.run_until_idle()
    assert (sorted(tries), {str(app.step(which).state) for which in (step, plain)}) == (["ann", "bob"], {"Failed"})


def test_a_step_that_has_begun_keeps_its_settings(app: Stepwell, clock: ManualClock) -> None:
    step = app.enqueue("mail", {"to": "ann"})
    app.database.transact(lambda tx: tx.execute("UPDATE steps SET attempts = 1", {}))
    declare(app, clock)
    assert settings_of(app.step(step)) == GENERAL


def test_steps_that_wait_for_others_are_settled_too_and_inherit_high_priority(
    bare: Stepwell, clock: ManualClock
) -> None:
    parent = NewStep(action="mail", arguments={"to": "ann"})
    child = NewStep(action="mail", arguments={"to": "bob"}, parent=parent, concurrency_limit=1)
    other = NewStep(action="file", parent=child)
    ids = bare.enqueue_many([parent, child, other])
    declare(bare, clock, "file", priority="default", queue="files", concurrency_key=None)
    assert bare.step(ids[2]).priority == "default"
    declare(bare, clock)
    assert settings_of(bare.step(ids[1])) == ("emails", "high", 0, 5.0, 2.0, "to:bob", 1)


def test_a_late_step_whose_key_cannot_be_computed_is_refused_with_the_reason(
    bare: Stepwell, clock: ManualClock
) -> None:
    step = bare.enqueue("mail", {"nobody": 1})
    declare(bare, clock)
    found = bare.step(step)
    assert (str(found.state), found.reason) == ("Failed", "refused")
    assert "no argument 'to'" in str(found.error_message)


def test_the_worker_itself_computes_the_key_of_a_late_step(app: Stepwell) -> None:
    good, bad = app.enqueue("mail", {"to": "ann"}), app.enqueue("mail", {"to": 1})

    @app.job(concurrency_key=lambda to: "to:" + to)
    def mail(to: str) -> None: ...

    app.record_jobs()
    assert app.step(good).concurrency_key == "to:ann"
    assert (app.step(bad).reason, "cannot be computed" in str(app.step(bad).error_message)) == ("refused", True)


def test_the_reaper_settles_what_was_committed_after_its_job_was_recorded(bare: Stepwell, clock: ManualClock) -> None:
    step = bare.enqueue("mail", {"to": "ann"}, delay=60)
    kept = bare.database.read(lambda tx: tx.fetch("SELECT * FROM steps_unsettled", {}))[0]
    declare(bare, clock)
    assert bare.step(step).timeout == 5.0
    bare.database.transact(  # as if its transaction had been open meanwhile
        lambda tx: tx.execute(
            f"INSERT INTO steps_unsettled (step_id, action, left_out) VALUES ({kept['step_id']}, 'mail', 'timeout')", {}
        )
    )
    bare.database.transact(lambda tx: tx.execute("UPDATE steps SET timeout = 0", {}))
    bare.reaper().round()
    assert settings_of(bare.step(step)) == DECLARED


def test_more_steps_than_a_batch_are_settled(bare: Stepwell, clock: ManualClock) -> None:
    bare.enqueue_many([NewStep(action="mail", arguments={"to": "ann"}) for _ in range(1_200)])
    declare(bare, clock)
    assert {settings_of(step) for step in bare.steps(limit=2_000)} == {DECLARED}


# Keys -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "key"),
    [('{"to": 7}', "to:7"), ('{"to": null}', "to:null"), ('{"to": {"a": [1, true]}}', 'to:{"a":[1,true]}')],
)
def test_a_key_is_the_same_from_plain_sql_and_from_the_job(
    app: Stepwell, clock: ManualClock, arguments: str, key: str
) -> None:
    @app.job(**SETTINGS)
    def mail(to: Any) -> None: ...

    app.record_jobs()
    assert app.step(mail.enqueue(**json.loads(arguments))).concurrency_key == key
    assert insert(app, "action, arguments", f"'mail', '{arguments}'").concurrency_key == key


def test_a_row_that_lacks_the_argument_of_its_key_is_refused_with_the_reason(
    bare: Stepwell, clock: ManualClock
) -> None:
    declare(bare, clock)
    step = insert(bare, "action", "'mail'")
    assert (str(step.state), step.reason) == ("Failed", "refused")
    assert "no argument 'to'" in str(step.error_message)
    with pytest.raises(InvalidStep, match="no argument 'to'"):
        bare.enqueue("mail")


def test_a_key_that_is_no_name_is_refused(bare: Stepwell, clock: ManualClock) -> None:
    declare(bare, clock)
    for bad in ("x" * 300, "line\\n"):
        assert insert(bare, "action, arguments", f"""'mail', '{{"to": "{bad}"}}'""").reason == "refused"


def test_without_the_code_a_key_that_is_a_function_must_be_given(bare: Stepwell, clock: ManualClock) -> None:
    declare(bare, clock, concurrency_key=lambda to: f"to:{to}")
    step = insert(bare, "action, arguments", """'mail', '{"to": "ann"}'""")
    assert (step.reason, "is a function" in str(step.error_message)) == ("refused", True)
    with pytest.raises(InvalidStep, match="is a function"):
        bare.enqueue("mail", {"to": "ann"})
    given = insert(bare, "action, concurrency_key", "'mail', 'to:ann'")
    assert settings_of(given) == DECLARED


@pytest.mark.one_database
@pytest.mark.parametrize("key", ["{", "}", "{}", "{0}", "{to.x}", "{to!r}", "{to:>3}", "{nobody}", "{copies}"])
def test_a_template_that_cannot_always_be_evaluated_is_refused_when_the_job_is_defined(app: Stepwell, key: str) -> None:
    with pytest.raises(StepwellError, match="concurrency_key is"):

        @app.job(concurrency_key=key)
        def mail(to: str, copies: int = 1) -> None: ...


# Aliases ----------------------------------------------------------------------------------------------


def test_steps_under_a_former_name_run_with_the_settings_of_the_job(app: Stepwell) -> None:
    old = app.enqueue("post", {"to": "ann"})
    ran = []

    @app.job(name="mail", aliases=["post"], retries=7)
    def mail(to: str) -> None:
        ran.append(to)

    app.run_until_idle()
    assert (ran, str(app.step(old).state)) == (["ann"], "Completed")
    assert insert(app, "action, arguments", """'post', '{"to": "bob"}'""").max_retries == 7
    new = app.step(app.enqueue("post", {"to": "cy"}))
    assert (new.action, new.max_retries) == ("mail", 7)
    app.run_until_idle()
    assert sorted(ran) == ["ann", "bob", "cy"]


def test_a_limit_counts_steps_under_former_names(app: Stepwell) -> None:
    app.enqueue("post", group="alpha")

    @app.job(name="mail", aliases=["post"])
    def mail() -> None: ...

    mail.options(group="alpha").enqueue()
    app.limits.set("action", "mail", 1)
    runner = app.inline_runner()
    try:
        app.dispatch_once()
        assert len(runner.claim(8)) == 1
        assert runner.claim(8) == []
    finally:
        runner.close()


def test_an_alias_that_is_dropped_is_forgotten(bare: Stepwell, clock: ManualClock) -> None:
    declare(bare, clock, aliases=["post", "letter"])
    assert bare.reader.jobs()[0].aliases == ["letter", "post"]
    declare(bare, clock, aliases=["post"])
    assert bare.reader.jobs()[0].aliases == ["post"]
    assert settings_of(insert(bare, "action", "'letter'")) == GENERAL


@pytest.mark.one_database
def test_two_jobs_cannot_have_one_name(app: Stepwell) -> None:
    app.job(name="one", aliases=["two"])(print_nothing)
    for settings in ({"name": "two"}, {"name": "three", "aliases": ["one"]}):
        with pytest.raises(StepwellError, match="already registered"):
            app.job(**settings)(print_nothing)
    with pytest.raises(StepwellError, match="aliases is 'old'"):
        app.job(name="four", aliases="old")(print_nothing)


def print_nothing() -> None: ...


# Many processes ---------------------------------------------------------------------------------------


def _record(url: str, retries: int) -> int:
    app = Stepwell(url)
    for number in range(40):
        app.job(name=f"job {(7 * number + retries) % 40}", retries=retries, aliases=[f"old {number}"])(print_nothing)
    app.record_jobs()
    made = app.enqueue("job 3")
    found = app.step(made).max_retries
    app.close()
    assert found is not None
    return found


@pytest.mark.slow
def test_eight_processes_record_different_declarations_at_once(shared_database_url: str) -> None:
    assert in_processes(_record, [(shared_database_url, retries) for retries in range(8)]) == list(range(8))
    with other_app(shared_database_url) as app:
        rows = app.reader.jobs()
        assert [row.name for row in rows] == sorted(f"job {number}" for number in range(40))
        assert {row.max_retries for row in rows} <= set(range(8))
