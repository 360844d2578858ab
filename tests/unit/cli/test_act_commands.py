"""Acting: `enqueue`, `retry`, `cancel`, `skip`, `pause`, `resume`, `drain`, `safe-to-restart`."""

from __future__ import annotations

import getpass
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from stepwell import State, Stepwell
from stepwell.testing import behave
from tests.unit.cli.support import PATIENCE, ask, on_terminal, process, run


@pytest.fixture
def app(shared_database_url: str) -> Iterator[Stepwell]:
    with Stepwell(shared_database_url) as app:
        behave(app)
        yield app


def url_of(app: Stepwell) -> str:
    return app.database.url


# enqueue -----------------------------------------------------------------------------------------------


def test_what_enqueue_is_given_reaches_the_step(app: Stepwell) -> None:
    parent = app.enqueue("behave", group="omega")
    first = app.enqueue("behave", parent=parent)
    document = ask(
        url_of(app), "enqueue", "fetch", "--arguments", '{"symbol": "BTC", "n": [1, 2.5, null]}', "--label", "BTC now",
        "--queue", "candles", "--priority", "high", "--parent", str(parent.id), "--depends-on", first.uuid,
        "--index", "4", "--max-retries", "7", "--timeout", "30", "--cooldown", "2.5",
        "--relatable", "symbol:BTC:USD", "--key", "btc-1",
        "--at", "2031-05-06T07:08:09.123456+02:00",
    )  # fmt: skip
    step = app.step(document["id"])
    assert document["uuid"] == step.uuid
    assert (step.action, step.label, step.arguments) == ("fetch", "BTC now", {"symbol": "BTC", "n": [1, 2.5, None]})
    assert (step.queue, step.group, step.priority, step.index) == ("candles", "omega", "high", 4)
    assert (step.parent_step_id, step.max_retries, step.timeout, step.cooldown) == (parent.id, 7, 30.0, 2.5)
    assert (step.relatable_type, step.relatable_id, step.idempotency_key) == ("symbol", "BTC:USD", "btc-1")
    assert step.dispatch_after == datetime(2031, 5, 6, 5, 8, 9, 123456, tzinfo=UTC)
    assert ask(url_of(app), "show", step.uuid)["depends_on"] == [first.id]


def test_a_handler_can_be_enqueued_into_a_block(app: Stepwell) -> None:
    step = app.step(app.enqueue("behave"))
    document = ask(url_of(app), "enqueue", "tidy", "--block", str(step.block_uuid), "--type", "resolve-exception")
    assert (document["state"], document["reason"], document["group"]) == ("NotRunnable", "dormant", step.group)


def test_a_delay_counts_from_now(app: Stepwell) -> None:
    before = app.database.now()
    document = ask(url_of(app), "enqueue", "fetch", "--delay", "90")
    due = datetime.fromisoformat(document["dispatch_after"])
    assert before + timedelta(seconds=89) < due < app.database.now() + timedelta(seconds=91)


def test_a_moment_without_an_offset_is_utc(app: Stepwell) -> None:
    document = ask(url_of(app), "enqueue", "fetch", "--at", "2031-05-06 07:08")
    assert document["dispatch_after"] == "2031-05-06T07:08:00.000000+00:00"


def test_arguments_can_come_from_stdin(app: Stepwell) -> None:
    run(url_of(app), "enqueue", "fetch", "--arguments", "-", stdin='{"symbol": "ETH"}')
    assert app.steps()[0].arguments == {"symbol": "ETH"}


def test_a_second_step_with_the_key_is_not_created(app: Stepwell) -> None:
    first = ask(url_of(app), "enqueue", "fetch", "--key", "once")
    assert ask(url_of(app), "enqueue", "fetch", "--key", "once")["id"] == first["id"]
    assert "belongs to step" in run(url_of(app), "enqueue", "other", "--key", "once", code=1).stderr
    assert len(app.steps()) == 1


def test_enqueue_says_what_it_made(app: Stepwell) -> None:
    out = run(url_of(app), "enqueue", "fetch", "--label", "fetch BTC").stdout
    (step,) = app.steps()
    assert out.startswith(f"step {step.id} (fetch BTC) is Pending in group {step.group}, queue default\n")
    assert step.uuid in out


# retry, cancel, skip -----------------------------------------------------------------------------------


def failed(app: Stepwell) -> int:
    """The id of a failed step, with two later steps that are NotRunnable, under a failed parent."""
    children = [{"outcome": ["fail", "ok"], "label": "broken"}, {"index": 2}, {"index": 3}]
    app.enqueue("behave", {"spawn": children})
    app.run_until_idle()
    return next(step.id for step in app.steps() if step.label == "broken")


def test_a_retry_brings_back_what_went_with_the_step(app: Stepwell) -> None:
    number = failed(app)
    everything = sorted(step.id for step in app.steps())
    document = ask(url_of(app), "retry", str(number), "--who", "ann", "--why", "the file was repaired")
    assert document["revived"] == everything
    assert document["step"]["state"] == "Pending"
    last = app.history(number)[-1]
    assert (last.actor, last.reason) == ("operator:ann", "operator: the file was repaired")


def test_a_retry_reports_the_steps_that_returned_to_pending(app: Stepwell) -> None:
    number = failed(app)
    others = ", ".join(str(step.id) for step in reversed(app.steps()) if step.id != number)
    assert run(url_of(app), "retry", str(number)).stdout == (
        f"step {number} (broken) is Pending again; also revived: steps {others}\n"
    )


def test_a_retry_names_the_handlers_that_will_not_run_again(app: Stepwell) -> None:
    children = [{"outcome": "fail", "label": "broken"}, {"type": "resolve-exception", "label": "cleanup"}]
    app.enqueue("behave", {"spawn": children})
    app.run_until_idle()
    ids = {step.label: step.id for step in app.steps()}
    out = run(url_of(app), "retry", str(ids["broken"])).stdout
    assert out.endswith(f"exception handlers that have already run and will not run again: step {ids['cleanup']}\n")
    app.run_until_idle()
    assert ask(url_of(app), "retry", str(ids["broken"]))["handlers_done"] == [ids["cleanup"]]


def test_without_a_name_it_is_the_user_of_the_machine(app: Stepwell) -> None:
    step = app.enqueue("fetch")
    run(url_of(app), "cancel", str(step.id))
    assert app.history(step)[-1].actor == f"operator:{getpass.getuser()}"


def test_cancel_includes_the_descendants(app: Stepwell) -> None:
    step = app.enqueue("fetch")
    app.enqueue("fetch", parent=step)
    out = run(url_of(app), "cancel", step.uuid, "--why", "not needed").stdout
    assert out == f"step {step.id} (fetch) is Cancelled; the next ticks cancel its descendants\n"
    run(url_of(app), "dispatch")
    assert {found.state for found in app.steps()} == {State.CANCELLED}
    assert run(url_of(app), "cancel", step.uuid, code=1).stdout == ""


def test_cancel_of_a_running_step_names_its_worker(app: Stepwell) -> None:
    step = app.enqueue("behave")
    runner = app.inline_runner()
    app.dispatch_once()
    runner.claim(1)
    assert f"worker {runner.worker.id} has been asked to stop it" in run(url_of(app), "cancel", str(step.id)).stdout
    runner.close()


def test_skip_concludes_a_step(app: Stepwell) -> None:
    step = app.enqueue("fetch")
    assert ask(url_of(app), "skip", str(step.id), "--why", "done by hand")["step"]["state"] == "Skipped"
    assert app.history(step)[-1].reason == "operator: done by hand"


# the breaker -------------------------------------------------------------------------------------------


def test_pause_and_resume_turn_the_breaker(app: Stepwell) -> None:
    document = ask(url_of(app), "pause", "--who", "ann", "--why", "deploy")
    assert (document["dispatching"], document["changed_by"], document["reason"]) == (False, "operator:ann", "deploy")
    assert document["changed_at"].endswith("+00:00")
    out = run(url_of(app), "stats").stdout
    assert "PAUSED by ann since " in out
    assert ": deploy" in out
    assert not app.breaker.state().dispatching
    assert run(url_of(app), "resume").stdout == "dispatching: on\n"
    assert app.breaker.state().dispatching


def test_a_pause_shows_its_planned_end_and_how_late_it_is(app: Stepwell) -> None:
    out = run(url_of(app), "pause", "--planned", "20m", "--who", "ann").stdout
    assert "(planned end " in out
    assert app.breaker.state().planned == timedelta(minutes=20)
    assert "(planned end in 19 min)" in run(url_of(app), "top", "--once").stdout
    app.breaker.pause("ann", planned=1e-6)
    for command in (["stats"], ["doctor"], ["top", "--once"]):
        assert "past its planned end)" in run(url_of(app), *command).stdout, command
    for wrong in (["--planned", "soon"], ["--planned", "20m", "--workflow", "1"]):
        run(url_of(app), "pause", *wrong, code=2)
    run(url_of(app), "pause", "--planned", "0", code=1)
    run(url_of(app), "resume")
    run(url_of(app), "drain", "--planned", "1h30m")
    assert app.breaker.state().planned == timedelta(minutes=90)


def test_one_workflow_can_be_paused(app: Stepwell) -> None:
    held, free = app.enqueue("behave"), app.enqueue("behave")
    assert ask(url_of(app), "pause", "--workflow", str(held.id), "--why", "look first") == {
        "workflow": held.uuid,
        "paused": True,
    }
    app.run_until_idle()
    assert (app.step(held).state, app.step(free).state) == (State.PENDING, State.COMPLETED)
    assert "look first" in run(url_of(app), "explain", str(held.id)).stdout
    assert run(url_of(app), "resume", "--workflow", str(held.id)).stdout == f"workflow {held.uuid} is resumed\n"
    app.run_until_idle()
    assert app.step(held).state is State.COMPLETED


def test_a_restart_is_safe_when_paused_and_nothing_is_in_flight(app: Stepwell) -> None:
    assert ask(url_of(app), "safe-to-restart", code=1)["dispatching"] is True
    run(url_of(app), "pause")
    assert run(url_of(app), "safe-to-restart").stdout.startswith("safe to restart")
    run(url_of(app), "resume")
    app.enqueue("behave", group="beta")
    runner = app.inline_runner()
    app.dispatch_once()
    run(url_of(app), "pause")
    assert run(url_of(app), "safe-to-restart", code=1).stdout == "not safe to restart: 1 dispatched\n"
    run(url_of(app), "safe-to-restart", "--group", "alpha")
    run(url_of(app), "safe-to-restart", "--group", "beta", code=1)
    runner.round()
    assert ask(url_of(app), "safe-to-restart")["safe"] is True
    runner.close()


def test_a_drain_without_waiting_pauses_and_reports_what_still_runs(app: Stepwell) -> None:
    app.enqueue("behave")
    runner = app.inline_runner()
    app.dispatch_once()
    out = run(url_of(app), "drain", "--why", "deploy", code=1).stdout
    assert "not safe to restart: 1 dispatched" in out
    assert "`stepwell resume`" in out
    assert app.breaker.state().reason == "deploy"
    runner.round()
    assert ask(url_of(app), "drain")["safe"] is True
    assert app.breaker.state().reason == "deploy", "the first reason is kept"
    runner.close()


def test_a_drain_that_runs_out_of_time_ends_with_1(app: Stepwell) -> None:
    app.enqueue("behave")
    runner = app.inline_runner()
    app.dispatch_once()
    assert ask(url_of(app), "drain", "--wait", "--timeout", "0.01", code=1)["dispatched"] == 1
    assert any("not safe to restart" in line for line in on_terminal(url_of(app), "drain", "--timeout", "0", code=1))
    runner.close()


def test_a_drain_waits_until_the_last_step_has_ended(app: Stepwell) -> None:
    app.enqueue("behave")
    runner = app.inline_runner()
    app.dispatch_once()
    with process(url_of(app), "drain", "--wait") as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "draining: 1 step dispatched, 0 running\n"
        runner.round()
        out, err = waiting.communicate(timeout=PATIENCE)
    assert (waiting.returncode, err) == (0, "")
    assert out.startswith("safe to restart")
    runner.close()


def test_interrupting_a_drain_reports_that_dispatching_stays_paused(app: Stepwell) -> None:
    app.enqueue("behave")
    runner = app.inline_runner()
    app.dispatch_once()
    with process(url_of(app), "drain", "--wait") as waiting:
        assert waiting.stdout is not None
        waiting.stdout.readline()
        waiting.send_signal(signal.SIGINT)
        _, err = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 1
    assert err == "Stopped waiting. Dispatching stays paused until `stepwell resume`.\n"
    runner.close()


# enqueue and the recorded jobs ----------------------------------------------------------------------------


def test_enqueue_takes_what_is_left_out_from_the_recorded_job(app: Stepwell) -> None:
    @app.job(name="mail", queue="emails", retries=0, timeout=5, priority="high", concurrency_key="to:{to}")
    def mail(to: str) -> None: ...

    app.record_jobs()
    document = ask(url_of(app), "enqueue", "mail", "--arguments", '{"to": "ann"}')
    assert (document["queue"], document["max_retries"], document["timeout"]) == ("emails", 0, 5.0)
    assert (document["priority"], document["concurrency_key"]) == ("high", "to:ann")
    own = ask(
        url_of(app), "enqueue", "mail", "--retries", "3", "--timeout", "0", "--queue", "default",
        "--priority", "default", "--concurrency-key", "mine", "--concurrency-limit", "2",
    )  # fmt: skip
    assert (own["queue"], own["max_retries"], own["timeout"], own["priority"]) == ("default", 3, 0.0, "default")
    assert (own["concurrency_key"], own["concurrency_limit"]) == ("mine", 2)


def test_an_unknown_action_is_warned_about_with_a_suggestion(app: Stepwell) -> None:
    app.job(name="send_mail", aliases=["post"])(lambda: None)
    app.record_jobs()
    warned = run(url_of(app), "enqueue", "send_mial")
    assert "no worker has recorded a job 'send_mial' yet" in warned.stderr
    assert "did you mean send_mail?" in warned.stderr
    assert run(url_of(app), "enqueue", "post").stderr == run(url_of(app), "enqueue", "send_mail").stderr == ""


def test_jobs_lists_the_recorded_jobs_with_their_settings(app: Stepwell) -> None:
    assert "No worker has recorded a job yet" in run(url_of(app), "jobs").stdout
    app.job(name="mail", queue="emails", retries=0, timeout=5, aliases=["post"], max_running=2)(lambda: None)
    app.job(name="keyed", concurrency_key=lambda: "k")(lambda: None)
    app.record_jobs()
    text = run(url_of(app), "jobs").stdout
    for part in ("emails", "timeout 5", "formerly post", "at most 2 running", "key by"):
        assert part in text
    keyed, mail = (row for row in ask(url_of(app), "jobs") if row["name"] != "behave")
    assert (keyed["name"], keyed["concurrency_key"], keyed["workers"]) == ("keyed", None, 0)
    assert (mail["aliases"], mail["max_retries"], mail["max_running"]) == (["post"], 0, 2)
