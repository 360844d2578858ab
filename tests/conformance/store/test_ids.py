"""Ids: a row that is deleted by its number never shares it with a later row."""

from __future__ import annotations

from typing import Final

import pytest

from stepwell import Stepwell
from stepwell.dispatch import lock as group_lock
from stepwell.dispatch.phases import PhaseContext, process_marks
from stepwell.store.engine import ticks
from stepwell.testing import ManualClock
from tests.conformance.support.engine import Engine, returned
from tests.conformance.support.ticks import GROUP

UUID: Final = "00000000-0000-7000-8000-000000000000"
# A row of each table that numbers its own rows.
ROWS: Final = {
    "steps": "(action) VALUES ('behave')",
    "step_transitions": "(step_id, to_state, at, attempt) VALUES (1, 'Pending', '2026-01-01', 0)",
    "step_logs": "(step_id, attempt, at, level, message) VALUES (1, 1, '2026-01-01', 'INFO', 'text')",
    "steps_dispatcher_ticks": "(\"group\", owner, started_at) VALUES ('alpha', 'somebody', '2026-01-01')",
    "steps_key_marks": "(concurrency_key) VALUES ('key')",
    "steps_operations": "(kind, state, created_at) VALUES ('retry', 'done', '2026-01-01')",
    "steps_operation_items": "(operation_id, role) VALUES (1, 'target')",
    "steps_workflow_transitions": f"(workflow_id, to_state, at) VALUES ('{UUID}', 'pending', '2026-01-01')",
    "cron_jobs": "(name, cron_expression, handler_name) VALUES ('nightly', '30 2 * * *', 'behave')",
    "job_executions": "(job_id, scheduled_time) VALUES (1, '2026-01-01')",
    "steps_schedule_slots": "(job_id, slot, until_slot, outcome, decided_at) "
    "VALUES (1, '2026-01-01', '2026-01-01', 'fired', '2026-01-01')",
    "steps_schedule_changes": "(job_id, name, kind, actor, changed_at, revision) "
    "VALUES (1, 'nightly', 'edited', 'x', '2026-01-01', 1)",
    "steps_schedulers": "(name, ran_from, ran_until) VALUES ('x', '2026-01-01', '2026-01-01')",
    "steps_schedule_code": "(app, content_hash, seen_at) VALUES ('x', 'y', '2026-01-01')",
    "steps_tasks": "(task_class, main_process, queued_at) VALUES ('Import', 'nightly', '2026-01-01')",
    "steps_failed_queueings": "(main_process, at, error, message) VALUES ('nightly', '2026-01-01', 'E', 'text')",
    "steps_causes_tally": "(fingerprint, number, behind) VALUES ('x', 1, 0)",
    "steps_marks": "(\"group\", step_id) VALUES ('alpha', 1)",
}


def _tables_with_numbers(engine: Engine) -> set[str]:
    if engine.app.database.dialect == "postgres":
        rows = engine.sql(
            "SELECT table_name AS name FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND is_identity = 'YES'"
        )
    else:
        rows = engine.sql(
            "SELECT t.name FROM sqlite_master t JOIN pragma_table_info(t.name) c "
            "WHERE t.type = 'table' AND c.name = 'id' AND c.pk AND lower(c.type) = 'integer'"
        )
    return {str(row["name"]) for row in rows}


def test_every_table_that_numbers_its_rows_is_checked_here(engine: Engine) -> None:
    numbered_elsewhere = {"steps_archive"}  # its ids are those of steps
    assert _tables_with_numbers(engine) - numbered_elsewhere == set(ROWS)


@pytest.mark.parametrize("table", ROWS)
def test_the_number_of_a_deleted_row_is_never_given_out_again(
    lawless_app: Stepwell, clock: ManualClock, table: str
) -> None:
    engine, seen = Engine(lawless_app, clock), []
    if table in ("job_executions", "steps_schedule_slots"):
        engine.change(f"INSERT INTO cron_jobs {ROWS['cron_jobs']}")  # to refer to
    for _ in range(3):
        engine.change(f"INSERT INTO {table} {ROWS[table]}")
        seen.append(engine.sql(f"SELECT max(id) AS id FROM {table}")[0]["id"])
        engine.change(f"DELETE FROM {table}")
    assert seen == sorted(set(seen))


def test_a_tick_never_deletes_a_mark_that_was_written_after_its_survey(engine: Engine) -> None:
    """With several dispatchers: one deletes the mark that another has read, and the next mark must not replace it."""
    engine.plant("root(first, second)", group=GROUP)
    database = engine.app.database
    with engine.worker() as runner:
        (root,) = engine.claim(runner, "root")
        returned(runner._finisher, root, None)
        engine.tick()
        first, second = engine.claim(runner, "first", "second")
        returned(runner._finisher, first, None)
        lock = group_lock.acquire(database, GROUP, "slow")
        assert lock is not None
        assert len(lock.survey.marks) == 1
        assert database.transact(lambda tx: ticks.delete_idle_marks(tx, limit=100)) == 1
        returned(runner._finisher, second, None)
        context = PhaseContext(GROUP, f"tick:{lock.tick}", database.now())
        database.transact(lambda tx: process_marks(tx, context, lock.survey.marks))
        database.transact(
            lambda tx: ticks.release_lock(tx, group=GROUP, token=lock.token, now=database.now(), ended_early=False)
        )
        engine.tick()
    assert engine.state("root") == "Completed"
