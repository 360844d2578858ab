"""An unknown name is refused or warned about, with the name that was probably meant."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import NewStep, Stepwell, StepwellError
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
