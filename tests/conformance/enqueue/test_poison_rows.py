"""No row blocks others: what plain SQL writes is refused by the database, or set aside with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import InvalidStep, Stepwell, StepwellError
from stepwell.model import codec
from tests.conformance.enqueue.test_plain_sql import DATABASE_ERRORS, insert, refused
from tests.conformance.enqueue.test_plain_sql import clock as clock
from tests.conformance.support.engine import Engine

TEXT_COLUMNS = (
    "action", "label", "arguments", "queue", "group", "uuid", "workflow_id", "block_uuid", "child_block_uuid", "type",
    "priority", "relatable_type", "relatable_id", "idempotency_key", "concurrency_key", "error_message", "response",
    "reason", "actor", "dispatch_after", "created_at", "updated_at",
)  # fmt: skip
ALL_TEXTS = (*TEXT_COLUMNS, "state", "checkpoint", "stage", "hostname", "started_at", "last_error", "lease_deadline")


def is_sqlite(app: Stepwell) -> bool:
    return app.database.dialect == "sqlite"


def others_go_on(engine: Engine) -> None:
    """A step of the API and a row of plain SQL, both younger, still run; every read still works."""
    engine.add("younger")
    insert(engine, "younger row")
    engine.settle()
    assert engine.states("younger", "younger row") == {"younger": "Completed", "younger row": "Completed"}
    for step in engine.app.steps(limit=1_000):
        engine.app.history(step)
        engine.app.explain(step)
        engine.app.tree(step)
    assert [report for report in engine.app.ticks(limit=1_000) if report.error] == []


@pytest.mark.parametrize("depth", [65, 900, 3_000])
def test_deep_arguments_are_refused_and_nothing_waits_for_them(engine: Engine, depth: int) -> None:
    insert(engine, "older row")
    try:
        insert(engine, "deep", arguments='{"a": ' + "[" * depth + "]" * depth + "}")
    except DATABASE_ERRORS:
        assert is_sqlite(engine.app)
    others_go_on(engine)
    if "deep" in engine.refs:
        assert "nested deeper than 64 levels" in refused(engine["deep"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"n": 123456789012345678901234567890}', "64 bits"),
        ('{"n": "' + "x" * codec.MAX_BYTES + '"}', "exceed the limit"),
    ],
)
def test_arguments_beyond_the_limits_of_the_api_are_refused(engine: Engine, arguments: str, said: str) -> None:
    insert(engine, "bad", arguments=arguments)
    others_go_on(engine)
    assert said in refused(engine["bad"])


@pytest.mark.one_database  # PostgreSQL stores no such text
@pytest.mark.parametrize("column", ALL_TEXTS)
def test_sqlite_stores_no_bytes_as_text(engine: Engine, column: str) -> None:
    step = engine.add("old")
    with pytest.raises(DATABASE_ERRORS):
        engine.change(f"""INSERT INTO steps ({'' if column == 'action' else 'action, '}"{column}")
                          VALUES ({"" if column == "action" else "'behave', "}x'ff')""")  # fmt: skip
    with pytest.raises(DATABASE_ERRORS):
        engine.change(f"""UPDATE steps SET "{column}" = x'ff' WHERE id = {step.id}""")
    others_go_on(engine)


@pytest.mark.one_database  # PostgreSQL stores no such text
@pytest.mark.parametrize(
    "column", ["action", "label", "queue", "group", "relatable_id", "arguments", "concurrency_key"]
)
@pytest.mark.parametrize("stored", ["ff", "c3", "80", "e282", "eda080"])
def test_a_row_whose_text_is_not_utf8_is_refused(engine: Engine, column: str, stored: str) -> None:
    value = f"CAST(x'{stored}' AS text)" if column != "arguments" else f"CAST(x'7b2261223a22{stored}227d' AS text)"
    names, values = ("action", value) if column == "action" else (f'action, "{column}"', f"'behave', {value}")
    engine.change(f"INSERT INTO steps ({names}) VALUES ({values})")
    (step,) = engine.app.steps()
    others_go_on(engine)
    after = engine.app.step(step)
    assert f"its {column} is not valid UTF-8" in refused(after)


@pytest.mark.one_database  # PostgreSQL stores no such text
@pytest.mark.parametrize("column", ["arguments", "label", "relatable_id"])
def test_a_step_whose_text_becomes_unreadable_is_set_aside_by_the_claim(engine: Engine, column: str) -> None:
    engine.plant("a, bad, b")
    value = "CAST(x'7b2261223a22ff227d' AS text)" if column == "arguments" else "CAST(x'ff' AS text)"
    engine.change(f"UPDATE steps SET {column} = {value} WHERE id = {engine.refs['bad'].id}")
    others_go_on(engine)
    step = engine["bad"]
    assert (str(step.state), step.reason) == ("Failed", "unreadable")
    assert f"its {column} is not valid UTF-8" in (step.error_message or "")
    assert engine.states("a", "b") == {"a": "Completed", "b": "Completed"}


@pytest.mark.parametrize("change", ["attempts = 2147483647", "lease_token = 9223372036854775807"])
def test_a_step_that_no_claim_can_take_is_set_aside(engine: Engine, change: str) -> None:
    engine.plant("a, bad, b")
    engine.change(f"UPDATE steps SET {change} WHERE id = {engine.refs['bad'].id}")
    others_go_on(engine)
    step = engine["bad"]
    if step.state != "Completed":  # SQLite counts on
        assert (str(step.state), step.reason) == ("Failed", "unreadable")
        assert "the row cannot be claimed" in (step.error_message or "")
    assert engine.states("a", "b") == {"a": "Completed", "b": "Completed"}


@pytest.mark.parametrize(
    "change",
    [
        "undecided = 'always'",
        "undecided = 'always', plan = '{}'",
        "undecided = 'always', plan = '[1]'",
        "kind = 'gate'",
    ],
)
def test_a_step_whose_plan_no_tick_can_read_is_set_aside(engine: Engine, change: str) -> None:
    engine.plant("a > bad, b")
    engine.change(f"UPDATE steps SET belongs_to = 'workflow', {change} WHERE id = {engine.refs['bad'].id}")
    others_go_on(engine)
    step = engine["bad"]
    assert (str(step.state), step.reason) == ("Failed", "unreadable")
    assert "its plan is not that of a workflow's step" in (step.error_message or "")
    assert [row.id for row in engine.app.reader.set_aside()] == [step.id]
    assert engine.states("a", "b") == {"a": "Completed", "b": "Completed"}
    engine.app.sweep()  # repairs what else the UPDATE left behind


def test_a_row_that_no_statement_can_adopt_is_set_aside(engine: Engine) -> None:
    """The cause does not matter: here it is a trigger that a user added."""
    insert(engine, "before")
    bad = insert(engine, "bad")
    if is_sqlite(engine.app):
        engine.change(f"""CREATE TRIGGER mine BEFORE UPDATE OF placed ON steps WHEN OLD.id = {bad.id} AND NEW.placed
                          BEGIN SELECT RAISE(ABORT, 'not this one'); END""")
    else:
        engine.change("""CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS
                         $$ BEGIN RAISE EXCEPTION 'not this one'; END $$""")
        engine.change(f"""CREATE TRIGGER mine BEFORE UPDATE OF placed ON steps FOR EACH ROW
                          WHEN (OLD.id = {bad.id} AND NEW.placed) EXECUTE FUNCTION mine()""")
    others_go_on(engine)
    assert "not this one" in refused(engine["bad"])
    assert engine.state("before") == "Completed"


def test_the_tick_log_and_the_overview_name_the_rows_that_were_set_aside(engine: Engine) -> None:
    bad = [insert(engine, f"bad {number}", arguments="[1]") for number in range(12)]
    others_go_on(engine)
    entries = [phase for tick in engine.app.ticks() for phase in tick.progress if phase["name"] == "set_aside"]
    assert [(entry["rows"], entry["steps"]) for entry in entries] == [(12, [step.id for step in bad[:10]])]
    assert "not a JSON object" in entries[0]["why"]
    rows = engine.app.reader.set_aside()
    assert [row.id for row in rows] == [step.id for step in reversed(bad)]
    assert {(row.action, row.reason, "not a JSON object" in (row.error_message or "")) for row in rows} == {
        ("behave", "refused", True)
    }
    engine.app.skip(bad[0], who="ann")
    assert len(engine.app.reader.set_aside()) == 11


def test_the_tick_log_names_a_step_that_no_claim_can_take(engine: Engine) -> None:
    engine.plant("bad")
    engine.change(f"UPDATE steps SET attempts = 2147483647 WHERE id = {engine.refs['bad'].id}")
    others_go_on(engine)
    if engine.state("bad") == "Failed":  # SQLite counts on
        entries = [phase for tick in engine.app.ticks() for phase in tick.progress if phase["name"] == "set_aside"]
        assert [entry["steps"] for entry in entries] == [[engine.refs["bad"].id]]


@pytest.mark.parametrize("column", ["created_at", "updated_at"])
def test_times_that_cannot_be_read_are_refused(engine: Engine, column: str) -> None:
    step = engine.add("old")
    bad = ["garbage", "zzz", ""] if is_sqlite(engine.app) else ["infinity", "-infinity", "10000-01-01", "0001-01-01 BC"]
    for value in bad:
        with pytest.raises(DATABASE_ERRORS):
            insert(engine, "bad", **{column: value})
        if column == "updated_at" and value not in ("-infinity", "0001-01-01 BC"):  # a step's time never goes back
            with pytest.raises(DATABASE_ERRORS):
                engine.change(f"UPDATE steps SET updated_at = '{value}' WHERE id = {step.id}")
    others_go_on(engine)


def test_other_times_that_cannot_be_read_hide_nothing(engine: Engine) -> None:
    engine.plant("a, b")
    engine.settle()
    value = "garbage" if is_sqlite(engine.app) else "infinity"
    engine.change(f"UPDATE steps SET started_at = '{value}', completed_at = '{value}'")
    others_go_on(engine)


@pytest.mark.parametrize("state", ["Running", "Completed", "Failed", "NotRunnable", "Dispatched"])
def test_a_row_cannot_begin_in_another_state_and_close_the_gate_of_others(engine: Engine, state: str) -> None:
    engine.plant("first > second")
    with pytest.raises(DATABASE_ERRORS):
        insert(engine, "bad", state=state, block_uuid=engine["first"].block_uuid, index=1)
    others_go_on(engine)
    assert engine.state("second") == "Completed"


@pytest.mark.parametrize("id_", [2**63 - 1, 2**63 - 2, 1_000, 0, -1, -(2**63)])
def test_a_number_that_a_later_step_would_get_is_refused(engine: Engine, id_: int) -> None:
    """The largest ones would leave no number for any other step."""
    engine.plant("older")
    with pytest.raises(DATABASE_ERRORS, match="the database numbers the steps"):
        insert(engine, "bad", id=id_)
    engine.change("INSERT INTO steps (action) SELECT 'behave' FROM steps UNION ALL SELECT 'behave' FROM steps")
    others_go_on(engine)


@pytest.mark.parametrize("column", ["attempts", "retries", "not_completed", "rescues", "double_checks"])
@pytest.mark.parametrize("value", [2**31, 2**63 - 1, -(2**31) - 1])
def test_counts_out_of_range_are_refused(engine: Engine, column: str, value: int) -> None:
    with pytest.raises(DATABASE_ERRORS):
        insert(engine, "bad", "behave", **{column: value})
    others_go_on(engine)


@pytest.mark.parametrize("column", ["checkpoint", "response"])
def test_a_checkpoint_or_response_that_is_no_json_is_refused(engine: Engine, column: str) -> None:
    with pytest.raises(DATABASE_ERRORS):
        insert(engine, "bad", **{column: "{"})
    others_go_on(engine)


def test_a_step_cannot_be_running_without_a_lease(engine: Engine) -> None:
    engine.plant("a")
    with engine.worker():
        engine.tick()
        assert engine.state("a") == "Dispatched"
        with pytest.raises(DATABASE_ERRORS):
            engine.change(f"UPDATE steps SET state = 'Running' WHERE id = {engine.refs['a'].id}")
    others_go_on(engine)


@pytest.mark.parametrize("status", ["open", "delayed"])
@pytest.mark.parametrize("change", ["max_retries = 0", "retries = 10"])
def test_a_step_whose_retries_were_taken_away_fails_and_blocks_nothing(
    engine: Engine, status: str, change: str
) -> None:
    engine.add("bad", delay=60 if status == "delayed" else None)
    engine.change(f"UPDATE steps SET retries = 1 WHERE id = {engine.refs['bad'].id}")
    assert engine.app.stats().agenda == {status: 1}
    engine.change(f"UPDATE steps SET {change} WHERE id = {engine.refs['bad'].id}")
    others_go_on(engine)
    assert (engine.state("bad"), engine["bad"].reason) == ("Failed", "max_retries_reached")


NUMBERS: list[dict[str, Any]] = [
    {name: value}
    for name in ("index", "max_retries", "concurrency_limit", "timeout", "cooldown", "delay")
    for value in (2**70, -(2**70), 2**31, 1e300, float("nan"), float("inf"))
    if not (name in ("timeout", "cooldown", "delay") and value == 2**31)
]


@pytest.mark.one_database
@pytest.mark.parametrize("settings", NUMBERS, ids=str)
def test_numbers_out_of_range_are_errors_of_ours(engine: Engine, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidStep):
        engine.app.enqueue("behave", **settings)


@pytest.mark.parametrize("reference", [2**70, -(2**70), 2**63])
def test_references_out_of_range_are_errors_of_ours(engine: Engine, reference: int) -> None:
    for call in (
        lambda: engine.app.enqueue("behave", parent=reference),
        lambda: engine.app.enqueue("behave", depends_on=[reference]),
        lambda: engine.app.step(reference),
        lambda: engine.app.retry(reference, who="ann"),
    ):
        with pytest.raises(StepwellError):
            call()
