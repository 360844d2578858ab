"""The two tables as other programs use them: with the columns of the cron dispatcher, and times as text."""

from __future__ import annotations

import pytest

from stepwell import Stepwell
from stepwell.testing import ManualClock
from tests.conformance.schedule.support import at, create, outcomes, plain_sql, statuses, tick
from tests.unit.cli.support import plain_sql as another_client

FORMS = ["2026-01-01 00:05:00", "2026-01-01T00:05:00", "2026-01-01T00:05:00.000000Z", "2026-01-01T01:05:00+01:00"]


@pytest.mark.parametrize("moment", FORMS[:3])
def test_a_schedule_may_have_times_in_any_form(reports: Stepwell, clock: ManualClock, moment: str) -> None:
    plain_sql(
        reports,
        "INSERT INTO cron_jobs (name, description, cron_expression, handler_name, handler_params, is_enabled, "
        "max_retry, timeout_seconds, created_at, updated_at) "
        f"VALUES ('s', 'a report', '*/5 * * * *', 'report', 'null', 1, 3, 3600, '{moment}', '{moment}')",
    )
    reports.schedules.run_once()
    assert reports.schedules.get("s").created_at == at(0, 5)
    assert tick(reports, clock, at(0, 5)) == 1


@pytest.mark.parametrize("moment", FORMS)
def test_an_execution_that_plain_sql_wrote_for_a_slot_is_its_only_one(
    reports: Stepwell, clock: ManualClock, moment: str
) -> None:
    create(reports)
    plain_sql(reports, f"INSERT INTO job_executions (job_id, scheduled_time) VALUES (1, '{moment}')")
    assert tick(reports, clock, at(0, 5)) == 0
    assert statuses(reports) == [(at(0, 5), "PENDING")]
    assert outcomes(reports) == [(at(0, 5), at(0, 5), "fired", None)]
    assert reports.schedules.check_ledger() == []


@pytest.mark.parametrize("moment", FORMS)
def test_a_second_execution_of_a_slot_is_ignored(reports: Stepwell, clock: ManualClock, moment: str) -> None:
    create(reports)
    tick(reports, clock, at(0, 5))
    plain_sql(
        reports,
        f"INSERT INTO job_executions (job_id, scheduled_time) VALUES (1, '{moment}') "
        "ON CONFLICT (job_id, scheduled_time) DO NOTHING",
    )
    assert statuses(reports) == [(at(0, 5), "PENDING")]


def test_deleting_a_row_takes_its_executions_and_its_ledger_with_it_and_is_recorded(shared_database_url: str) -> None:
    clock = ManualClock(at(0))
    with Stepwell(shared_database_url, clock=clock) as app:

        @app.job()
        def report() -> None: ...

        create(app)
        tick(app, clock, at(0, 5))
        another_client(shared_database_url, "DELETE FROM cron_jobs WHERE name = 's'")
        left = "SELECT id FROM job_executions UNION ALL SELECT id FROM steps_schedule_slots"
        assert app.database.read(lambda tx: tx.fetch(left, {})) == []
        answer = app.schedules.explain("s", at(0, 5))
        assert answer.verdict == "deleted"
        assert "deleted by plain SQL" in answer.text
        assert app.run_until_idle() == 1  # its step is not affected
        assert app.schedules.run_once() == 0
