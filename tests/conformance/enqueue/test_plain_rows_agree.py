"""The same INSERTs of plain SQL on both databases: accepted alike with the same content, or refused alike."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stepwell import Stepwell
from stepwell.testing import ManualClock
from tests.conformance.enqueue.test_plain_sql import DATABASE_ERRORS

UUID = "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab"
SHOWN = (
    "action", "arguments", "label", "index", "type", "priority", "max_retries", "timeout", "cooldown", "dispatch_after",
    "concurrency_limit", "workflow_id", "block_uuid", "child_block_uuid", "parent_step_id", "queue", "group",
)  # fmt: skip

# One column and its value as SQL. PostgreSQL reads a time without an offset in the time zone of the session: here UTC.
ROWS: list[tuple[str, str]] = [
    *(("index", value) for value in (
        "0", "7", "1.5", "2.5", "1.4", "1.0", "'7'", "-1", "2147483647", "2147483648", "3000000000", "'first'",
        "''", "NULL",
    )),
    *(("max_retries", value) for value in ("0", "1.5", "'9'", "-1", "2147483647", "3000000000", "'many'", "NULL")),
    *(("concurrency_limit", value) for value in ("1", "0", "-3", "2.4", "3000000000", "'one'", "NULL")),
    *((name, value) for name in ("timeout", "cooldown") for value in (
        "0", "2.5", "'3'", "-1", "1e300", "3155760001", "'soon'", "NULL",
    )),
    *(("dispatch_after", f"'{value}'") for value in (
        "2026-12-01 08:00:00", "2026-12-01T08:00:00", "2026-12-01t08:00:00z", "2026-12-01T08:00:00Z",
        "2026-12-01 08:00",
        "2026-12-01T08:00Z", "2026-12-01 08:00+02:00", "2026-12-01", "2026-12-01 08:00:00.5",
        "2026-12-01T08:00:00.123456Z",
        "2026-12-01 08:00:00.9999996", "2026-12-31 23:59:59.9999999", "2026-12-01 08:00:00+02:00",
        "2026-12-01 08:00:00-05:30",
        "2026-12-01 08:00:00+00", "2026-12-01 08:00:00+0200", "2026-12-01T08:00:00.25+02", "2026-12-01 24:00:00",
        "2026-12-01 24:30:00", "2026-02-29 00:00:00", "2024-02-29", "2026-13-01", "2026-02-31", "2026-12-01 25:00:00",
        "next friday", "", "infinity", "-infinity", "10000-01-01", "0001-01-01", "0001-01-02 00:00:00", "9999-12-31",
        "9999-12-30 23:59:59.999999",
    )),
    *(("dispatch_after", value) for value in ("NULL", "7", "1.5")),
    *((name, f"'{value}'") for name in ("created_at", "updated_at") for value in (
        "2026-01-01T00:00:00Z", "2026-01-01", "garbage", "infinity", "10000-01-01",
    )),
    *((name, f"'{value}'") for name in ("uuid", "workflow_id", "block_uuid", "child_block_uuid") for value in (
        UUID, UUID.upper(), UUID.replace("-", ""), "{" + UUID + "}", "nonsense", "", UUID[:-1], UUID[:-1] + "g",
        UUID + "0",
    )),
    *(("parent_step_id", value) for value in ("1", "'1'", "99", "-1", "'one'", "NULL")),
    *(("state", f"'{value}'") for value in (
        "Pending", "Dispatched", "Running", "Completed", "Skipped", "Failed", "Stopped", "Cancelled", "NotRunnable",
        "Idle",
    )),
    ("lease_worker", "'me'"), ("own_code_done_at", "'2026-01-01 00:00:00'"),
    ("compute_done_at", "'2026-01-01 00:00:00'"),
    ("stage", "'complete'"), ("dependencies", "1"),
    *(("arguments", f"'{value}'") for value in ("{}", '{"n": 1}', "[1]", "{", "")),
    ("arguments", "'" + '{"a": ' + "[" * 99 + "]" * 99 + "}'"),
    *(("type", f"'{value}'") for value in ("default", "resolve-exception", "handler")),
    *(("priority", f"'{value}'") for value in ("high", "urgent")),
    *(("trigger_rule", f"'{v}'") for v in ("all_ended", "x")),
    ("label", "5"), ("label", "'é\ufffd'"), ("action", "''"), ("queue", "NULL"), ("group", "'mine'"),
]  # fmt: skip


@pytest.fixture
def both(tmp_path: Path, postgres_url: str) -> Iterator[list[Stepwell]]:
    clock = ManualClock()
    apps = [Stepwell("sqlite://", clock=clock).open(), Stepwell(postgres_url, clock=clock).open()]
    yield apps
    for app in apps:
        app.close()


def outcome(app: Stepwell, column: str, value: str) -> Any:
    """What is stored after the INSERT, as Python reads it, and how adoption ends it; or "refused"."""
    names = ["action", column] if column != "action" else ["action"]
    values = ["'act'", value] if column != "action" else [value]
    columns = ", ".join(f'"{name}"' for name in names)
    sql = f"INSERT INTO steps ({columns}) VALUES ({', '.join(values)})"
    try:
        app.database.transact(lambda tx: _insert(tx, sql))
    except DATABASE_ERRORS:
        return "refused"
    (step,) = app.steps(limit=1)
    before = {name: getattr(step, name) for name in SHOWN}
    if column in ("created_at", "updated_at", "uuid"):
        before[column] = getattr(step, column)
        assert column == "uuid" or app.history(step)[0].at == step.created_at
    app.dispatcher().round()
    after = app.step(step)
    return before, str(after.state), after.reason, (after.error_message or "").replace(after.uuid, "…")


def _insert(tx: Any, sql: str) -> None:
    if tx.dialect == "postgres":
        tx.execute("SET LOCAL TimeZone TO 'UTC'", {})
    tx.execute(sql.replace("%", "%%"), {})


def test_the_databases_accept_and_refuse_the_same_rows(both: list[Stepwell]) -> None:
    different = []
    for app in both:
        app.enqueue("act", label="the parent")  # step 1 on both
    for column, value in ROWS:
        on_sqlite, on_postgres = (outcome(app, column, value) for app in both)
        if on_sqlite != on_postgres:
            different.append((column, value[:60], on_sqlite, on_postgres))
        for app in both:  # a second row with the same UUID would be refused for that
            app.database.transact(_forget_rows)
    assert not different, "\n".join(map(str, different))


def _forget_rows(tx: Any) -> None:
    for table, name in (("steps_agenda", "step_id"), ("steps_unconcluded", "step_id"), ("steps_marks", "step_id")):
        tx.execute(f"DELETE FROM {table} WHERE {name} > 1", {})
    tx.execute("DELETE FROM steps WHERE id > 1", {})


def test_times_of_plain_sql_sort_as_times(both: list[Stepwell]) -> None:
    """Stored as given they would sort as text: a T after a space, an offset not at all."""
    sqlite = both[0]
    moments = ["2026-12-01T08:00:00+05:00", "2026-12-01 04:00:00", "2026-12-01T04:30Z", "2026-12-01 06:00:00.5+01"]
    for moment in moments:
        sql = f"INSERT INTO steps (action, dispatch_after) VALUES ('a', '{moment}')"
        sqlite.database.transact(partial(_insert, sql=sql))
    rows = sqlite.database.read(lambda tx: tx.fetch("SELECT id FROM steps ORDER BY dispatch_after", {}))
    assert [row["id"] for row in rows] == [1, 2, 3, 4]
