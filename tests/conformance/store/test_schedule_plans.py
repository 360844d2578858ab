"""An idle poll of a scheduler costs the same however many schedules there are (issue item 10): it reads what is due."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell import Stepwell
from stepwell.store import Transaction
from stepwell.store.engine import ticks
from stepwell.store.statement import statements
from tests.conformance.store.test_query_plans import _analyze, _instructions, _is_sqlite, _nodes

pytestmark = pytest.mark.slow

MANY = 10_000
# What a poll asks, and what it asks when there is something to do.
ASKED = {
    "slots": ("survey", "lock_due", "lock_ahead", "lock_overdue"),
    "schedules": ("lock_edited",),
    "executions": ("late_executions",),
}


def _fill(app: Stepwell, first: int, count: int) -> None:
    """Schedules whose next slots lie ahead, each with an execution that has ended and a row of the ledger."""
    now = app.database.now().strftime("%Y-%m-%d %H:%M:%S")
    if _is_sqlite(app):
        below = f"SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {first + count}"
        numbers, source = f"WITH RECURSIVE n (i) AS ({below}) ", "n"
        ahead = f"strftime('%Y-%m-%d %H:%M:%f000', '{now}', '+' || (1 + i) || ' hours')"
        past = f"strftime('%Y-%m-%d %H:%M:%f000', '{now}', '-1 day')"
    else:
        numbers, source = "", f"generate_series({first}, {first + count - 1}) AS n (i)"
        ahead, past = f"timestamptz '{now}Z' + i * interval '1 hour'", f"timestamptz '{now}Z' - interval '1 day'"
    for sql in (
        "INSERT INTO cron_jobs (id, name, cron_expression, handler_name, revision, edited_at, last_slot, next_slot, "
        f"expect_within, expect_at) {numbers}"
        f"SELECT i, 'x' || i, '@daily', 'report', 1, NULL, {past}, {ahead}, 60, {ahead} FROM {source}",
        f"INSERT INTO job_executions (job_id, scheduled_time, status, start_by, started_at) {numbers}"
        f"SELECT i, {past}, 'SUCCESS', {past}, {past} FROM {source}",
    ):
        app.database.transact(lambda tx, sql=sql: tx.execute(sql, {}))  # type: ignore[misc]


@pytest.mark.parametrize("analyzed", [False, True], ids=["before-statistics", "with-statistics"])
def test_an_idle_poll_costs_the_same_with_ten_thousand_schedules_as_with_ten(app: Stepwell, analyzed: bool) -> None:
    _fill(app, 1, 10)
    few = _cost(app)
    _fill(app, 11, MANY)
    if analyzed:
        _analyze(app)
    assert _cost(app) < 3 * few + 20


def _cost(app: Stepwell) -> int:
    """Instructions of SQLite's machine, or pages that PostgreSQL touches."""
    if _is_sqlite(app):
        scheduler = app.schedules.scheduler()
        scheduler.round()
        return _instructions(app, scheduler.round)

    def analyze(tx: Transaction) -> int:
        now = app.database.now()
        parameters: dict[str, Any] = {"now": now, "ahead": now, "excluded": [], "limit": 500}
        total = 0
        ticks.keep_to_indexes(tx)
        for subject, names in ASKED.items():
            for name in names:
                sql = statements(subject, "postgres")[name]
                (row,) = tx.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", parameters)
                (plan,) = json.loads(row["QUERY PLAN"])
                total += max(
                    node["Shared Hit Blocks"] + node["Shared Read Blocks"] + node.get("Rows Removed by Filter", 0)
                    for node in _nodes(plan["Plan"])
                )
        return total

    return app.database.transact(analyze)
