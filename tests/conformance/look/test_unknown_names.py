"""An unknown name is refused or warned about, with the name that was probably meant."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import InvalidStep, NewStep, Stepwell, StepwellError
from tests.unit.cli.support import run_bare


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "stepwell.names"]


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"state": "bogus"}, "unknown state 'bogus'; valid states: Pending, "),
        ({"state": ["Failed", "Runing"]}, "unknown state 'Runing'; did you mean Running?"),
        ({"queue": "candels"}, "unknown queue 'candels'; did you mean candles?"),
        ({"group": "alhpa"}, "unknown group 'alhpa'; did you mean alpha?"),
        ({"sate": "Failed"}, "unknown filter 'sate'; did you mean state?"),
    ],
)
def test_a_search_for_an_unknown_name_is_refused(app: Stepwell, filters: dict[str, Any], message: str) -> None:
    with pytest.raises(StepwellError) as caught:
        app.steps(**filters)
    assert message in str(caught.value)


def test_states_are_found_in_any_case_and_known_names_without_steps_give_an_empty_list(app: Stepwell) -> None:
    step = app.enqueue("a")
    assert [found.id for found in app.steps(state="pending")] == [step.id]
    assert app.steps(queue="candles") == app.steps(group="kappa", state="Failed") == []


def test_the_ticks_of_an_unknown_group_are_refused(app: Stepwell) -> None:
    assert app.ticks("alpha") == []
    with pytest.raises(StepwellError, match="unknown group 'alhpa'; did you mean alpha"):
        app.ticks("alhpa")


@pytest.mark.one_database
def test_unknown_settings_of_jobs_drafts_and_parts_are_refused(app: Stepwell) -> None:
    fetch = app.job(name="fetch")(lambda: None)
    for refused, meant in (
        (lambda: app.job(retires=3)(print), "unknown setting 'retires'; did you mean retries?"),
        (lambda: app.job(max_runing=3)(print), "unknown setting 'max_runing'; did you mean max_running?"),
        (lambda: fetch.options(prioritty="high"), "unknown setting 'prioritty'; did you mean priority?"),
        (lambda: app.enqueue("other", quue="x"), "unknown setting 'quue'; did you mean queue?"),
        (lambda: NewStep(action="a", labell="x"), "unknown field 'labell'; did you mean label?"),  # type: ignore[call-arg]
        (lambda: app.worker(slot=3), "unknown setting 'slot'; did you mean slots?"),  # type: ignore[call-arg]
        (lambda: app.worker(executor="tread"), "executor='tread': unknown; did you mean thread?"),  # type: ignore[arg-type]
        (lambda: app.dispatcher(batchlimit=3), "unknown setting 'batchlimit'; did you mean batch_limit?"),  # type: ignore[call-arg]
        (lambda: app.reaper(rescue=3), "unknown setting 'rescue'; did you mean rescues?"),  # type: ignore[call-arg]
        (lambda: app.limits.set("queu", "a", 1), "did you mean queue?"),  # type: ignore[arg-type]
    ):
        with pytest.raises(StepwellError) as caught:
            refused()
        assert meant in str(caught.value)


def test_an_unknown_queue_of_a_step_is_warned_about_once(app: Stepwell, caplog: pytest.LogCaptureFixture) -> None:
    steps = [app.enqueue("a", queue="candels"), app.enqueue("a", queue="candels", priority="high")]
    assert [app.step(step).queue for step in steps] == ["default", "priority"]
    (warning,) = warnings(caplog)
    assert warning.startswith("unknown queue 'candels': its steps go to the queue `default`, or `priority`")
    assert warning.endswith("did you mean candles?")


def test_a_new_group_with_almost_the_name_of_another_is_warned_about(
    app: Stepwell, caplog: pytest.LogCaptureFixture
) -> None:
    app.enqueue("a", group="my-own-group")
    app.enqueue("a", group="alhpa")
    app.enqueue("a", group="alhpa")
    assert warnings(caplog) == ["new group 'alhpa' is created by its first step; did you mean alpha?"]


def test_a_limit_of_an_action_that_is_almost_a_known_one_is_warned_about(
    app: Stepwell, caplog: pytest.LogCaptureFixture
) -> None:
    app.job(name="send_mail")(lambda: None)
    app.worker().row.unregister()
    app.limits.set("action", "send_mial", 3)
    app.limits.set("action", "of_another_program", 3)
    app.limits.set("action", "send_mail", 3)
    assert warnings(caplog) == ["no worker has recorded a job 'send_mial'; did you mean send_mail?"]


def test_an_unknown_queue_of_a_limit_or_a_worker_is_warned_about(
    app: Stepwell, caplog: pytest.LogCaptureFixture
) -> None:
    app.limits.set("queue", "candels", 3)
    app.worker(queues=["indicator"]).row.unregister()
    assert [warning.rpartition("; ")[2] for warning in warnings(caplog)] == [
        "did you mean candles?",
        "did you mean indicators?",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["steps", "--queue", "candels"], "unknown queue 'candels'; did you mean candles?"),
        (["steps", "--group", "alhpa"], "unknown group 'alhpa'; did you mean alpha?"),
        (["ticks", "--group", "alhpa"], "unknown group 'alhpa'; did you mean alpha?"),
    ],
)
def test_commands_refuse_unknown_names(shared_database_url: str, arguments: list[str], message: str) -> None:
    assert message in run_bare("--db", shared_database_url, *arguments, code=1).stderr


def test_commands_print_warnings(shared_database_url: str) -> None:
    message = run_bare("--db", shared_database_url, "enqueue", "a", "--queue", "candels").stderr
    assert message.startswith("stepwell: warning: unknown queue 'candels'")


def test_an_explicit_default_priority_under_a_high_parent_is_kept(app: Stepwell) -> None:
    parent = NewStep(action="a", priority="high")
    inherited = NewStep(action="a", parent=parent)
    explicit = NewStep(action="a", parent=parent, priority="default")
    below = NewStep(action="a", parent=explicit)
    steps = [app.step(ref) for ref in app.enqueue_many([parent, inherited, explicit, below])]
    assert [(step.priority, step.queue) for step in steps] == [
        ("high", "priority"), ("high", "priority"), ("default", "default"), ("default", "default"),
    ]  # fmt: skip


@pytest.mark.one_database
def test_an_explicit_default_priority_overrides_that_of_the_job(app: Stepwell) -> None:
    urgent = app.job(name="urgent", priority="high")(lambda: None)
    assert app.step(urgent.enqueue()).priority == "high"
    assert app.step(urgent.options(priority="default").enqueue()).priority == "default"
    assert app.step(app.enqueue_many([NewStep(action="urgent", priority="default")])[0]).priority == "default"


@pytest.mark.parametrize("limit", [-1, 2**31, 2**70, 1.5, "x", None, True])
def test_a_limit_of_rows_is_checked_before_the_database_sees_it(app: Stepwell, limit: Any) -> None:
    """SQLite took -1 for no limit at all, PostgreSQL refused it; the rest were errors of the drivers."""
    step = app.enqueue("a")
    for read in (
        lambda: app.steps(limit=limit),
        lambda: app.ticks(limit=limit),
        lambda: app.lists.steps(limit=limit),
        lambda: app.figures.causes(limit=limit),
        lambda: app.operations.newest(limit=limit),
        lambda: app.operations.of_step(step.id, limit=limit),
        lambda: app.operations.of_workflow(step.uuid, limit=limit),
        lambda: app.workflows.newest(limit=limit),
        lambda: app.main_processes.failed_queueings(limit=limit),
    ):
        with pytest.raises(StepwellError, match=r"limit is .*, not a whole number between 0 and 2147483647"):
            read()


@pytest.mark.parametrize("before", [-1, 2**70, "x"])
def test_the_place_where_a_page_begins_is_checked_too(app: Stepwell, before: Any) -> None:
    for read in (lambda: app.steps(before=before), lambda: app.operations.newest(before=before)):
        with pytest.raises(StepwellError, match="before is "):
            read()


@pytest.mark.parametrize("relatable", ["Order", ("Order",), ("Order", 1, 2), (1, 2), 7])
def test_what_a_step_is_about_is_a_pair(app: Stepwell, relatable: Any) -> None:
    for ask in (lambda: app.is_live(relatable), lambda: app.steps(relatable=relatable)):
        with pytest.raises(StepwellError, match=r"relatable is .*; pass a pair of a type and an id, like"):
            ask()


@pytest.mark.parametrize("name", ["x" * 256, "a\0b", "a\nb", "\ud800"])
def test_a_limit_is_that_of_a_printable_name(app: Stepwell, name: str) -> None:
    with pytest.raises(StepwellError, match="must be 1 to 255 printable characters"):
        app.limits.set("queue", name, 3)


@pytest.mark.one_database
@pytest.mark.parametrize("name", ["index", "max_retries", "concurrency_limit"])
def test_a_number_that_is_too_large_is_refused_with_the_range(app: Stepwell, name: str) -> None:
    """It said that 2 ** 31 is "not a whole number of at least 1"."""
    with pytest.raises(InvalidStep, match=f"{name} is 2147483648, not a whole number between [01] and 2147483647"):
        app.enqueue_many([NewStep(action="a", **{name: 2**31})])  # type: ignore[arg-type]
