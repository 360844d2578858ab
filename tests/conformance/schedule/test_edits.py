"""Rule 1: edits settle what is due first, never fire the past, and plain SQL is an edit like any other."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Stepwell
from stepwell.schedule.errors import InvalidSchedule, ScheduleNotFound
from stepwell.testing import ManualClock
from tests.conformance.schedule.support import (
    MINUTE,
    SECOND,
    at,
    create,
    edited_at,
    fired,
    outcomes,
    plain_sql,
    statuses,
    tick,
)  # fmt: skip


def test_an_edit_settles_due_slots_under_the_old_definition_in_its_own_transaction(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports)
    clock.move_to(at(0, 5) + SECOND)
    edit = reports.schedules.edit("s", expression="*/2 * * * *", who="bob", why="busier")
    assert edit.changed == ["expression"]
    assert (edit.before[0], edit.after[0], len(edit.before), len(edit.after)) == (at(0, 10), at(0, 6), 5, 5)
    assert statuses(reports) == [(at(0, 5), "PENDING")]
    tick(reports, clock, at(0, 6))
    assert fired(reports) == [at(0, 5), at(0, 6)]
    assert reports.schedules.check_ledger() == []


@pytest.mark.parametrize(
    "change", [{"expression": "* * * * *"}, {"tz": "Asia/Kolkata"}, {"expression": "*/7 * * * *", "tz": "Asia/Tokyo"}]
)
def test_an_edit_of_expression_or_zone_never_fires_the_past(
    reports: Stepwell, clock: ManualClock, change: dict[str, Any]
) -> None:
    create(reports, "0 1 * * *", misfire="all")
    clock.move_to(at(0, 40) + 30 * SECOND)
    reports.schedules.edit("s", who="bob", **change)
    assert reports.schedules.run_once() == 0
    assert all(slot > at(0, 40) for slot in reports.schedules.next("s"))


def test_enabling_never_fires_the_past_and_the_gap_is_one_row(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "*/2 * * * *", misfire="all")
    reports.schedules.disable("s", who="bob", why="holiday")
    tick(reports, clock, at(0, 20) + SECOND)
    reports.schedules.enable("s", who="bob")
    assert reports.schedules.run_once() == 0
    assert outcomes(reports) == [(at(0, 2), at(0, 20), "skipped", "disabled")]
    assert [change.kind for change in reports.schedules.changes("s")] == ["created", "disabled", "enabled"]
    assert tick(reports, clock, at(0, 22)) == 1
    assert reports.schedules.check_ledger() == []


def test_a_preview_changes_nothing(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    clock.move_to(at(0, 7))
    before = reports.schedules.get("s")
    edit = reports.schedules.edit("s", expression="@hourly", who="bob", preview=True)
    assert edit.after[0] == at(1)
    assert reports.schedules.get("s") == before
    assert statuses(reports) == []


def test_every_change_is_recorded_with_who_when_why_before_and_after(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    clock.move_to(at(2))
    reports.schedules.edit("s", expression="@hourly", who="bob", why="less load")
    change = reports.schedules.changes("s")[-1]
    assert (change.kind, change.actor, change.reason, change.changed_at) == (
        "edited", "operator:bob", "less load", at(2),
    )  # fmt: skip
    assert '"expression":"*/5 * * * *"' in (change.before or "")
    assert '"expression":"@hourly"' in (change.after or "")


def test_a_write_of_a_scheduler_that_read_an_older_definition_changes_nothing(
    reports: Stepwell, clock: ManualClock
) -> None:
    from stepwell.store.engine import schedules, slots

    create(reports)
    row = reports.database.read(lambda tx: schedules.cron_by_name(tx, name="s"))
    assert row is not None
    reports.schedules.edit("s", description="new", who="bob")
    stale = [(row.id, row.revision, row.last_slot, at(0, 5), at(0, 10))]
    assert reports.database.transact(lambda tx: slots.advance(tx, rows=slots.rows_of(tx, stale))) == 0
    moved = [(row.id, row.revision + 1, at(9), at(0, 5), at(0, 10))]
    assert reports.database.transact(lambda tx: slots.advance(tx, rows=slots.rows_of(tx, moved))) == 0


# plain SQL ------------------------------------------------------------------------------------------------


def _insert(app: Stepwell, name: str, expression: str, handler: str = "report", **columns: object) -> None:
    extra = "".join(f", {column}" for column in columns)
    values = "".join(f", {value!r}" for value in columns.values())
    plain_sql(
        app,
        f"INSERT INTO cron_jobs (name, cron_expression, handler_name{extra}) "
        f"VALUES ('{name}', '{expression}', '{handler}'{values})",
    )


def test_a_row_of_plain_sql_is_recorded_and_fires_from_then_on(reports: Stepwell, clock: ManualClock) -> None:
    _insert(reports, "s", "*/5 * * * *")
    assert reports.schedules.run_once() == 0
    assert [(each.kind, each.actor) for each in reports.schedules.changes("s")] == [("created", "plain SQL")]
    definition = reports.schedules.get("s").definition
    assert (definition.max_retry, definition.timeout_seconds) == (3, 3600)
    assert tick(reports, clock, at(0, 5)) == 1
    assert fired(reports) == [at(0, 5)]


@pytest.mark.parametrize(
    ("expression", "handler", "columns", "word"),
    [
        ("61 * * * *", "report", {}, "61"),
        ("*/5 * * * * *", "report", {}, "fields"),
        ("0 0 30 2 *", "report", {}, "never fire"),
        ("*/5 * * * *", "nothing", {}, "unknown job"),
        ("*/5 * * * *", "report", {"zone": "Mars/Base"}, "Mars"),
        ("*/5 * * * *", "report", {"handler_params": "[1"}, "JSON object"),
        ("*/5 * * * *", "report", {"handler_params": '{"unknown": 1}'}, "parameters do not fit"),
        ("*/5 * * * *", "report", {"max_retry": 0}, "max_retry"),
        ("*/5 * * * *", "nothing", {"target": "workflow"}, "unknown workflow"),
    ],
)
def test_a_bad_row_of_plain_sql_disables_that_schedule_with_its_reason_and_no_other(
    reports: Stepwell, clock: ManualClock, expression: str, handler: str, columns: dict[str, object], word: str
) -> None:
    create(reports, name="good")
    _insert(reports, "bad", expression, handler, **columns)
    reports.schedules.run_once()
    bad = reports.schedules.get("bad")
    assert not bad.definition.enabled
    assert word in (bad.disabled_reason or "")
    assert tick(reports, clock, at(0, 5)) == 1
    assert reports.schedules.next("bad", 1) is not None
    assert reports.schedules.executions("bad") == []
    with pytest.raises(InvalidSchedule, match=word):
        reports.schedules.enable("bad", who="bob")


def test_an_interval_below_the_minimum_by_plain_sql_disables_that_schedule(
    reports: Stepwell, clock: ManualClock
) -> None:
    reports.schedules.options = type(reports.schedules.options)(min_cron_interval_seconds=300.0)
    _insert(reports, "s", "* * * * *")
    reports.schedules.run_once()
    assert "minimum interval" in (reports.schedules.get("s").disabled_reason or "")


def test_an_update_by_plain_sql_is_an_edit_at_the_time_it_was_made(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "*/5 * * * *")
    clock.move_to(at(0, 11))
    plain_sql(reports, "UPDATE cron_jobs SET cron_expression = '*/3 * * * *' WHERE name = 's'")
    edited_at(reports, at(0, 7))
    reports.schedules.run_once()
    assert fired(reports) == [at(0, 5), at(0, 9)]  # the first by the old expression, the second by the new one
    change = reports.schedules.changes("s")[-1]
    assert (change.kind, change.actor, change.changed_at) == ("noticed", "plain SQL", at(0, 7))
    assert reports.schedules.check_ledger() == []


def test_a_bad_update_by_plain_sql_can_be_repaired_by_an_edit(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    plain_sql(reports, "UPDATE cron_jobs SET cron_expression = 'at noon' WHERE name = 's'")
    reports.schedules.run_once()
    assert reports.schedules.next("s") == []
    edit = reports.schedules.edit("s", expression="0 12 * * *", who="bob")
    assert (edit.before, edit.after[0]) == ([], at(12))
    reports.schedules.enable("s", who="bob")
    assert tick(reports, clock, at(12)) == 1


def test_an_edit_through_the_api_takes_note_of_plain_sql_first(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    plain_sql(reports, "UPDATE cron_jobs SET max_retry = 7 WHERE name = 's'")
    reports.schedules.edit("s", description="new", who="bob")
    assert reports.schedules.get("s").definition.max_retry == 7
    assert [change.kind for change in reports.schedules.changes("s")] == ["created", "noticed", "edited"]


def test_disabling_by_plain_sql_is_noticed_and_enabling_does_not_fire_the_past(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports, misfire="all")
    plain_sql(reports, "UPDATE cron_jobs SET is_enabled = 0 WHERE name = 's'")
    assert tick(reports, clock, at(1)) == 0
    assert reports.schedules.get("s").disabled_by == "plain SQL"
    plain_sql(reports, "UPDATE cron_jobs SET is_enabled = 1 WHERE name = 's'")
    edited_at(reports, at(1))
    assert tick(reports, clock, at(1) + MINUTE) == 0
    assert tick(reports, clock, at(1, 5)) == 1
    assert reports.schedules.check_ledger() == []


def test_a_rename_keeps_the_slots_of_h(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "H H * * *")
    before = reports.schedules.next("s")
    plain_sql(reports, "UPDATE cron_jobs SET name = 'renamed' WHERE name = 's'")
    assert reports.schedules.next("renamed") == before
    reports.schedules.edit("renamed", description="the same", who="bob")
    assert reports.schedules.next("renamed") == before


def test_an_unknown_name_is_answered_with_the_nearest(reports: Stepwell) -> None:
    create(reports, name="nightly")
    with pytest.raises(ScheduleNotFound, match="did you mean nightly"):
        reports.schedules.get("nightli")


def test_everything_that_is_wrong_is_reported_at_once(reports: Stepwell) -> None:
    with pytest.raises(InvalidSchedule) as error:
        reports.schedules.create("s", "0 25 * * *", "repot", who="alice", max_retry=0)
    assert all(word in str(error.value) for word in ("25", "repot", "max_retry"))
    with pytest.raises(InvalidSchedule, match="parameters") as misfit:
        create(reports, params={"unknown": 1})
    assert str(misfit.value).count("nothing was written") == 1
    create(reports)
    with pytest.raises(InvalidSchedule, match="exists already"):
        create(reports)


def test_an_interval_below_the_minimum_is_refused_at_whichever_pair_it_occurs(reports: Stepwell) -> None:
    reports.schedules.options = type(reports.schedules.options)(min_cron_interval_seconds=300.0)
    with pytest.raises(InvalidSchedule, match="minimum interval"):
        create(reports, "0,58 0,23 * * *")  # 23:58 and midnight
    create(reports, "0 0 * * *")
