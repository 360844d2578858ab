"""Rule 7: code declares schedules, operators override them, and older code never undoes newer."""

from __future__ import annotations

import logging
import threading

import pytest

from stepwell import Stepwell
from stepwell.model.errors import ActionRefused, CronParseError
from stepwell.schedule.errors import InvalidSchedule
from stepwell.testing import ManualClock
from tests.conformance.schedule.support import at, create, fired, plain_sql, tick


def code(url: str, clock: ManualClock | None = None, app: str = "shop", **declared: dict[str, object]) -> Stepwell:
    """A program: an app with these schedules of its job `report`, by name."""
    made = Stepwell(url, name=app, clock=clock)

    @made.job()
    def report(kind: str = "all") -> None: ...

    for name, settings in declared.items():
        expression = str(settings.pop("expression", "*/5 * * * *"))
        made.cron(expression, name=name, **settings)(report)  # type: ignore[arg-type]
    return made


@pytest.fixture
def url(shared_database_url: str) -> str:
    return shared_database_url


def test_the_decorator_makes_a_job_of_a_function_and_names_the_schedule_after_it(
    app: Stepwell, clock: ManualClock
) -> None:
    app._name = "shop"

    @app.cron("*/5 * * * *", tz="Asia/Tokyo", misfire="skip", max_retry=1)
    def tidy() -> str:
        return "tidy"

    assert app.schedules.reconcile().created == ["tidy"]
    made = app.schedules.get("tidy")
    assert (made.app, made.definition.zone, made.definition.misfire) == ("shop", "Asia/Tokyo", "skip")
    assert made.definition == made.declared
    assert [change.actor for change in app.schedules.changes("tidy")] == ["code:shop"]
    tick(app, clock, at(0, 5))
    assert app.run_until_idle() == 1
    assert app.schedules.reconcile().created == []


def test_a_worker_and_a_scheduler_write_what_the_code_declares_when_they_start(url: str) -> None:
    with code(url, a={}) as first:
        first.parts.scheduler().close()
        assert [each.name for each in first.schedules.list()] == ["a"]
    with code(url, a={}, b={}) as second:
        second.worker(executor="thread")
        assert [each.name for each in second.schedules.list()] == ["a", "b"]


def test_mistakes_are_reported_where_they_are_made(app: Stepwell) -> None:
    with pytest.raises(CronParseError, match="61"):
        app.cron("61 * * * *")(lambda: None)

    @app.job()
    def report() -> None: ...

    app.cron("@daily")(report)
    with pytest.raises(InvalidSchedule, match="declared twice"):
        app.cron("@hourly")(report)


def test_an_operators_override_survives_deployments_is_shown_and_can_be_reset(url: str) -> None:
    with code(url, a={"max_retry": 2}) as first:
        first.schedules.reconcile()
        first.schedules.edit("a", expression="@hourly", who="bob", why="too often")
    with code(url, a={"max_retry": 5, "expression": "*/2 * * * *"}) as second:
        assert second.schedules.reconcile().changed == ["a"]
        made = second.schedules.get("a")
        assert (made.definition.expression, made.definition.max_retry) == ("@hourly", 5)
        override = made.overrides["expression"]
        assert (override.who, override.why) == ("operator:bob", "too often")
        reset = second.schedules.reset("a", who="bob")
        assert (reset.definition.expression, reset.overrides) == ("*/2 * * * *", {})
        create(second, handler="report")
        with pytest.raises(ActionRefused, match="not declared"):
            second.schedules.reset("s", who="bob")


def test_setting_a_field_to_the_value_of_the_code_ends_the_override(url: str) -> None:
    with code(url, a={}) as app:
        app.schedules.reconcile()
        app.schedules.edit("a", max_retry=9, who="bob")
        assert list(app.schedules.get("a").overrides) == ["max_retry"]
        app.schedules.edit("a", max_retry=3, who="bob")
        assert app.schedules.get("a").overrides == {}


def test_plain_sql_overrides_too(url: str) -> None:
    with code(url, a={}) as first:
        first.schedules.reconcile()
        plain_sql(first, "UPDATE cron_jobs SET zone = 'Asia/Tokyo' WHERE name = 'a'")
    with code(url, a={"max_retry": 7}) as second:
        second.schedules.reconcile()
        made = second.schedules.get("a")
        assert (made.definition.zone, made.definition.max_retry) == ("Asia/Tokyo", 7)
        assert made.overrides["zone"].who == "plain SQL"


def test_whether_it_is_enabled_is_the_operators_decision(url: str) -> None:
    with code(url, a={}) as first:
        first.schedules.reconcile()
        first.schedules.disable("a", who="bob", why="holiday")
    with code(url, a={"expression": "@daily"}) as second:
        second.schedules.reconcile()
        made = second.schedules.get("a")
        assert (made.definition.enabled, made.disabled_by, made.disabled_reason) == (False, "operator:bob", "holiday")


def test_a_schedule_that_left_the_code_is_disabled_with_that_reason_and_returns_with_the_code(url: str) -> None:
    with code(url, a={}, b={}) as first:
        first.schedules.reconcile()
    with code(url, a={}) as second:
        assert second.schedules.reconcile().disabled == ["b"]
        gone = second.schedules.get("b")
        assert (gone.definition.enabled, gone.disabled_by) == (False, "code:shop")
        assert "no longer declared" in (gone.disabled_reason or "")
    with code(url, a={}, b={}, c={}) as third:
        third.schedules.reconcile()
        assert third.schedules.get("b").definition.enabled


def test_an_operator_may_enable_what_left_the_code(url: str) -> None:
    with code(url, a={}, b={}) as first:
        first.schedules.reconcile()
    with code(url, a={}) as second:
        second.schedules.reconcile()
        second.schedules.enable("b", who="bob")
        second.schedules.reconcile()
    with code(url, a={"max_retry": 4}) as third:
        third.schedules.reconcile()
        assert third.schedules.get("b").definition.enabled


def test_older_code_never_undoes_newer_unless_it_is_forced(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with code(url, a={"max_retry": 1}) as old:
        old.schedules.reconcile()
    with code(url, a={"max_retry": 2}, b={}) as new:
        new.schedules.reconcile()
    with code(url, a={"max_retry": 1}) as old, caplog.at_level(logging.WARNING):
        done = old.schedules.reconcile()
        assert done.newer_code_since is not None
        assert "sync --force" in caplog.text
        assert old.schedules.get("a").definition.max_retry == 2
        assert old.schedules.get("b").definition.enabled
        old.schedules.reconcile(force=True)
        assert old.schedules.get("a").definition.max_retry == 1
        assert not old.schedules.get("b").definition.enabled


def test_code_touches_only_the_schedules_of_its_own_app(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with code(url, a={}) as shop, caplog.at_level(logging.ERROR):
        shop.schedules.reconcile()
        create(shop, name="by-hand", handler="report")
        with code(url, app="bank", b={}, a={"max_retry": 9}) as bank:
            done = bank.schedules.reconcile()
            assert (done.created, done.taken, done.disabled) == (["b"], ["a"], [])
            assert "another name" in caplog.text
        assert shop.schedules.get("a").definition.max_retry == 3
        assert shop.schedules.get("by-hand").definition.enabled


def test_several_processes_reconcile_at_once(url: str) -> None:
    apps = [code(url, s0={}, s1={}, s2={}, s3={}, s4={}) for _ in range(4)]
    with Stepwell(url) as look:
        together = threading.Barrier(len(apps))
        failures: list[BaseException] = []

        def run(app: Stepwell) -> None:
            try:
                with app:
                    together.wait()
                    app.schedules.reconcile()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(app,)) for app in apps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        for number in range(5):
            assert [change.kind for change in look.schedules.changes(f"s{number}")] == ["created"]


def test_a_declared_schedule_that_cannot_be_used_stops_the_start_and_nothing_is_written(url: str) -> None:
    with code(url, a={}, b={"params": {"unknown": 1}}, c={"max_retry": 0}) as app:
        with pytest.raises(InvalidSchedule) as error:
            app.parts.scheduler()
        assert all(word in str(error.value) for word in ("'b'", "'c'", "unknown", "max_retry"))
        assert app.schedules.list() == []


def test_a_declared_schedule_is_not_deleted_without_force(url: str) -> None:
    with code(url, a={}) as app:
        app.schedules.reconcile()
        with pytest.raises(ActionRefused, match="declared by the code of shop"):
            app.schedules.delete("a", who="bob")
        app.schedules.delete("a", who="bob", force=True)
        assert app.schedules.list() == []


def test_an_edit_by_a_deployment_never_fires_the_past(url: str) -> None:
    clock = ManualClock(at(0))
    with code(url, clock, a={"expression": "0 6 * * *", "misfire": "all"}) as first:
        first.schedules.reconcile()
    clock.move_to(at(5))
    with code(url, clock, a={"expression": "0 * * * *", "misfire": "all"}) as second:
        second.schedules.reconcile()
        assert second.schedules.run_once() == 0
        assert tick(second, clock, at(6)) == 1
        assert fired(second, "a") == [at(6)]
