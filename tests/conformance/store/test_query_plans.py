"""Every statement of the dispatcher and of a claim finds its rows by an index.

The planners are asked on a database with 200,000 finished and 20,000 blocked steps: whatever has ended and whatever
waits must not be read. A scan of a small table (groups, workers, settings, a handful of marks) is nobody's concern.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench.large_workflow import Large, questions
from bench.million import QUESTIONS, reads_of
from bench.rows import behind_the_triggers
from bench.screens import PAGES
from bench.shapes import blocked, finished
from stepwell import NewStep, Stepwell
from stepwell.look import outline
from stepwell.look.lists import BUDGET
from stepwell.look.outline import WINDOW
from stepwell.store import Transaction
from stepwell.store.engine import ticks
from stepwell.store.sqlite.transaction import adapt, parts_of
from stepwell.store.statement import statements
from stepwell.testing import behave
from tests.databases import fresh_database

pytestmark = pytest.mark.slow

FINISHED, BLOCKED = 200_000, 20_000

SUBJECTS = (
    "actions", "adoption", "agenda", "claims", "creation", "explaining", "keys", "limits", "phases", "placement",
    "reaping", "results", "retention", "runs", "settings", "ticks", "workers",
)  # fmt: skip
ABOUT_WORKERS = {"register_worker", "heartbeat", "delete_worker"}  # they have text for an id, and are not large
LARGE = ("steps", "step_transitions", "step_dependencies", "steps_unconcluded", "steps_archive")

# What workflows, operators and their operations do, and the tables that grow with it.
OF_WORKFLOWS = (
    "decisions", "gates", "inputs", "operations", "operator", "outlines", "past", "settling", "templates", "workflows",
)  # fmt: skip
LARGE_OF_WORKFLOWS = (
    *LARGE, "steps_workflows", "steps_workflow_transitions", "step_answers", "steps_operations",
    "steps_operation_items",
)  # fmt: skip
# Of these, `id` and `ids` are those of workflows.
WITH_IDS_OF_WORKFLOWS = {
    "contexts", "planned_steps", "execution", "insert_workflow", "lock_workflows", "settle", "forget_cancellation",
    "lock_for_new_steps", "template_steps", "workflow", "workflow_at", "workflow_exists", "workflow_transitions",
    "workflow_versions", "workflow_ids_between", "resolve_workflow",
}  # fmt: skip
BEFORE_A_WORKFLOW = {"newest_workflows", "listed_workflows"}
# They read an index from its end, and stop at their limit.
NEWEST_FIRST = {"newest_workflows", "listed_workflows"}
NOT_LARGE = {
    "newest_operations",  # the same
    "delete_items_of_previews", "delete_previews",  # the index of previews, which are deleted after a day
}  # fmt: skip

ARRAYS: dict[str, list[Any]] = {"ids": [1, 2, 3], "queues": ["default"], "keys": ["a", "b"],
    "uuids": ["00000000-0000-7000-8000-000000000000"], "actions": ["x"],
    "blocks": ["00000000-0000-7000-8000-000000000000"], "workers": ["x"], "groups": ["alpha"],
    "workflows": ["00000000-0000-7000-8000-000000000000"],
    "full_queues": [], "full_actions": ["x"], "rotation": ["alpha", "beta"], "wakes": ["work"],
    "names": ["x"], "known": ["x"], "left_out": ["queue", "queue", "queue"],
    "tokens": [1, 1, 1], "starting": [1], "responses": ["null", None, "1"], "durations": [0.1, 0.1, 0.1],
}  # fmt: skip
NUMBERS = {
    "id", "token", "tick", "limit", "keep", "count", "index", "first", "last", "dispatched", "duration", "parent",
    "parent_step_id", "duration_ms", "slots", "pid", "done", "total", "high", "margin", "spare", "most", "max_retries",
    "timeout", "cooldown", "concurrency_limit", "maximum", "batch", "fan", "weight", "max_running",
    "after", "operation", "undone", "undo_of", "because_of", "step_id", "pace", "job_id", "keep_days", "archive_days",
    "position", "workflow_count", "step_count", "deleted_to", "window",
}  # fmt: skip
TIMES = {
    "now", "at", "due_at", "next_at", "before", "deadline", "dispatch_after", "alive_until", "heartbeat_at",
    "keys_before", "slot", "until", "cutoff", "planned_end",
}  # fmt: skip
UUIDS = {"rerun_of", "block", "workflow", "workflow_id", "block_uuid", "child_block", "uuid"}
FLAGS = {
    "any_action", "open_too", "in_order", "keep_plan", "ended_early", "shares_block", "has_dependents", "began", "cut",
    "of_tasks", "archives",
}  # fmt: skip


def _sql(app: Stepwell) -> dict[str, str]:
    """The statements of the dispatcher, of workers and of the reaper, by name."""
    found = {name: sql for subject in SUBJECTS for name, sql in statements(subject, app.database.dialect).items()}
    found["is_live"] = statements("reading", app.database.dialect)["is_live"]  # programs ask it before they enqueue
    found["histories"] = statements("reading", app.database.dialect)["histories"]  # of a timeline
    found["fingerprint_of"] = statements("trouble", app.database.dialect)["fingerprint_of"]  # of a failed step
    return {name: sql for name, sql in found.items() if name not in ABOUT_WORKERS}


def _sql_of_workflows(app: Stepwell) -> dict[str, str]:
    found = {name: sql for subject in OF_WORKFLOWS for name, sql in statements(subject, app.database.dialect).items()}
    return {name: sql for name, sql in found.items() if name not in NOT_LARGE}


@pytest.fixture(scope="module", params=["sqlite-file", "postgres"])
def crowded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stepwell]:
    """An engine whose tables are full of what has finished and what is blocked."""
    if request.param == "postgres":
        request.getfixturevalue("postgres_server")
    with fresh_database(request.param, tmp_path_factory.mktemp("plans")) as url, Stepwell(url) as app:
        _leave_statistics_to_us(app)
        with behind_the_triggers(app.database) as loader:
            busy = loader.parent("Running")
            finished(loader, FINISHED, busy)
            blocked(loader, BLOCKED, busy)
        _fill_tables_of_workflows(app)
        yield app


def _fill_tables_of_workflows(app: Stepwell) -> None:
    """Workflows and operations that have ended; every operation has two items."""
    numbers, uuid = "generate_series(1, 20000) AS numbers (n)", "gen_random_uuid()"
    if _is_sqlite(app):
        numbers = (
            "(WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 20000) SELECT n FROM t)"
            " AS numbers"
        )
        uuid = "printf('00000000-0000-4000-8000-%012d', n)"
    now = {"now": app.database.now()}
    moment = ":now" if _is_sqlite(app) else "%(now)s"
    for statement in (
        "UPDATE steps SET template = 'step ' || id, plan = '{}' WHERE state = 'Completed' AND id < 20000",
        "UPDATE steps SET belongs_to = 'process', label = 'Sync' WHERE id BETWEEN 50000 AND 55000",
        "INSERT INTO steps_workflows (id, namespace, name, version, content_hash, state, created_at, updated_at)"
        f" SELECT {uuid}, 'shop', 'fulfil', '1', 'x', 'complete', {moment}, {moment} FROM {numbers}",
        f"INSERT INTO steps_operations (kind, state, created_at) SELECT 'retry', 'done', {moment} FROM {numbers}",
        "INSERT INTO steps_operation_items (operation_id, step_id, role) SELECT id, id, 'target' FROM steps_operations",
        "INSERT INTO steps_operation_items (operation_id, workflow_id, role)"
        " SELECT o.id, w.id, 'target' FROM steps_operations o JOIN (SELECT id, row_number() OVER (ORDER BY id) AS n"
        " FROM steps_workflows) w ON w.n = o.id",
    ):
        app.database.transact(lambda tx, statement=statement: tx.execute(statement, now))  # type: ignore[misc]


@pytest.mark.parametrize("analyzed", [False, True], ids=["before-statistics", "with-statistics"])
def test_no_statement_of_the_dispatcher_reads_a_large_table_from_end_to_end(crowded: Stepwell, analyzed: bool) -> None:
    if analyzed:
        _analyze(crowded)
    plans = crowded.database.transact(lambda tx: {name: _scans(crowded, tx, name) for name in _sql(crowded)})
    assert {name: scans for name, scans in plans.items() if scans} == {}


@pytest.mark.parametrize("analyzed", [False, True], ids=["before-statistics", "with-statistics"])
def test_no_statement_of_workflows_and_operators_reads_a_large_table_from_end_to_end(
    crowded: Stepwell, analyzed: bool
) -> None:
    if analyzed:
        _analyze(crowded)
    found = _sql_of_workflows(crowded)
    large = {name: LARGE if name in NEWEST_FIRST else LARGE_OF_WORKFLOWS for name in found}
    plans = crowded.database.transact(
        lambda tx: {name: _scans_of(crowded, tx, name, sql, large[name]) for name, sql in found.items()}
    )
    assert {name: scans for name, scans in plans.items() if scans} == {}


@pytest.mark.parametrize("kind", ["sqlite-file", "postgres"])
def test_nor_with_statistics_taken_when_everything_was_finished(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """The usual state: the planner is sure that there is next to no step that is not finished."""
    if kind == "postgres":
        request.getfixturevalue("postgres_server")
    with fresh_database(kind, tmp_path) as url, Stepwell(url) as app:
        _leave_statistics_to_us(app)
        with behind_the_triggers(app.database) as loader:
            busy = loader.parent("Completed")
            finished(loader, FINISHED // 4, busy)
        _analyze(app)
        with behind_the_triggers(app.database) as loader:
            blocked(loader, BLOCKED, loader.parent("Running"))
        plans = app.database.transact(lambda tx: {name: _scans(app, tx, name) for name in _sql(app)})
        assert {name: scans for name, scans in plans.items() if scans} == {}


def test_the_check_itself_notices_a_scan(crowded: Stepwell) -> None:
    whole = "SELECT id FROM steps s WHERE s.state = 'Failed' AND s.label = 'x'"
    assert crowded.database.transact(lambda tx: _plan_scans(crowded, tx, whole, {}))


@pytest.mark.parametrize("analyzed", [False, True], ids=["before-statistics", "with-statistics"])
def test_no_figure_and_no_list_reads_all_steps(crowded: Stepwell, analyzed: bool) -> None:
    """SQLite counts instructions (some twenty for each row), PostgreSQL rows and entries of indexes."""
    if analyzed:
        _analyze(crowded)
    per_row = 20 if _is_sqlite(crowded) else 1
    reads = {name: reads_of(crowded, question) // per_row for name, question in QUESTIONS.items()}
    most = dict.fromkeys(QUESTIONS, 2_000) | {
        "groups": 3_000,
        # What they are about, and nothing else.
        "steps --state Running": 5_000,
        "steps --status delayed": 2_000,
        "shares of tasks": 25_000,  # 2,000 runs, among the history of 2,000 steps
        # The budget: twice, for the ids and for the rows.
        "steps --state Completed": 3 * BUDGET,
        "steps by parent that Failed": 3 * BUDGET,
        "steps by an argument that none has": 3 * BUDGET,
        "count by an argument that none has": 3 * BUDGET,
    }
    assert {name: number for name, number in reads.items() if number > most[name]} == {}


@pytest.mark.parametrize("analyzed", [False, True], ids=["before-statistics", "with-statistics"])
def test_no_screen_and_no_list_of_the_api_reads_all_steps(crowded: Stepwell, analyzed: bool) -> None:
    if analyzed:
        _analyze(crowded)
    per_row = 20 if _is_sqlite(crowded) else 1
    reads = {name: reads_of(crowded, question) // per_row for name, question in PAGES.items()}
    most = dict.fromkeys(PAGES, 6_000)
    for name in PAGES:
        if "state=Completed" in name or "args." in name:  # the budget, and a count of what it found
            most[name] = 7 * BUDGET
    most["screen /shares"] = 30_000
    assert {name: number for name, number in reads.items() if number > most[name]} == {}


@pytest.mark.parametrize("analyzed", [False, True], ids=["before-statistics", "with-statistics"])
def test_a_page_of_a_large_workflow_reads_a_chunk_of_its_steps(
    crowded: Stepwell, analyzed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A root whose children are an eighth of the finished and a quarter of the blocked steps."""
    if analyzed:
        _analyze(crowded)
    monkeypatch.setattr(outline, "CHUNK", 1_000)
    root = crowded.lists.steps(state="Running", limit=1).rows[0]
    first = crowded.lists.steps(parent=root.id, limit=1).rows[0]
    asked = questions(Large(map=root.uuid, tree=root.uuid, first_child=first.id))
    per_row = 60 if _is_sqlite(crowded) else 1  # it groups them
    reads = {name: reads_of(crowded, question) // per_row for name, question in asked.items()}
    # The size, the chunk and a page with the histories of its steps; an opened stack looks through a window as well.
    most = 2 * WINDOW + 2_000
    assert {name: number for name, number in reads.items() if number > most} == {}


@pytest.mark.parametrize("analyzed", [False, True], ids=["before-statistics", "with-statistics"])
def test_the_probe_reads_no_large_table_even_if_the_planner_is_left_to_itself(
    crowded: Stepwell, analyzed: bool
) -> None:
    if analyzed:
        _analyze(crowded)
    sql, parameters = _sql(crowded)["groups_with_work"], {"now": crowded.database.now()}
    scans = crowded.database.read(
        lambda tx: (
            _sqlite_scans(tx, sql, parameters)
            if _is_sqlite(crowded)
            else _complaints(tx.fetch(f"EXPLAIN (FORMAT JSON) {sql}", parameters))
        )
    )
    assert scans == []


@pytest.mark.parametrize("analyzed", [False, True], ids=["before-statistics", "with-statistics"])
@pytest.mark.parametrize("statement", ["pick", "pick_for_claim", "pick_in_groups_for_claim", "has_claimable_steps"])
def test_a_pick_reads_its_own_lanes_however_much_waits(app: Stepwell, statement: str, analyzed: bool) -> None:
    """In step order the whole agenda is one index away: a planner that knows little of lanes may well take it."""
    app.enqueue_many(NewStep(action="tested") for _ in range(5_000))
    if analyzed:
        _analyze(app)
    assert app.database.transact(lambda tx: _scans(app, tx, statement, ("steps_agenda",))) == []


def test_an_idle_round_costs_the_same_however_much_waits_for_a_worker(app: Stepwell) -> None:
    """What nobody serves is open, and yet nothing that there is to do."""
    behave(app)
    runner = app.inline_runner()
    app.enqueue_many(NewStep(action="nobody knows this") for _ in range(10))
    few = _cost_of_a_round(app)
    app.enqueue_many(NewStep(action="nobody knows this") for _ in range(5_000))
    assert _cost_of_a_round(app) < 2 * few
    runner.close()


@pytest.mark.parametrize("life", ["_life_of_a_tree", "_life_of_a_lone_step"])
@pytest.mark.parametrize("crowded", ["sqlite-file"], indirect=True)
def test_a_step_costs_the_same_however_many_have_finished_and_are_blocked(
    crowded: Stepwell, tmp_path: Path, life: str
) -> None:
    """PostgreSQL does not count its work like this; its plans are looked at above."""
    live = globals()[life]
    with Stepwell(f"sqlite:///{tmp_path}/empty.db") as empty:
        alone = _instructions(empty, lambda: live(empty))
    assert _instructions(crowded, lambda: live(crowded)) < 1.5 * alone


def _life_of_a_lone_step(app: Stepwell) -> None:
    job = behave(app, "alone")
    runner = app.inline_runner()
    handles = [job.enqueue() for _ in range(3)]
    app.dispatch_once()
    for claim in runner.claim(3):
        runner._run(claim)
    assert {app.step(handle).state for handle in handles} == {"Completed"}
    runner.close()


def _life_of_a_tree(app: Stepwell) -> None:
    behave(app, "tested")
    runner = app.inline_runner(queues=["indicators"])
    root = NewStep(action="tested", queue="indicators")
    children = [NewStep(action="tested", queue="indicators", parent=root, index=index) for index in (1, 1, 2)]
    refs = app.enqueue_many([root, *children])
    while any(app.step(ref).state != "Completed" for ref in refs):
        app.dispatch_once()
        for claim in runner.claim(4):
            runner._run(claim)
    app.dispatcher().run_until_quiet()
    runner.close()


def _cost_of_a_round(app: Stepwell) -> int:
    """Instructions of SQLite's machine, or rows of the agenda that PostgreSQL touches."""
    dispatcher = app.dispatcher()
    dispatcher.run_until_quiet()
    if _is_sqlite(app):
        return _instructions(app, lambda: dispatcher.round())

    def analyze(tx: Transaction) -> int:
        ticks.keep_to_indexes(tx)
        sql = _sql(app)["groups_with_work"]
        (row,) = tx.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", {"now": app.database.now()})
        (plan,) = json.loads(row["QUERY PLAN"])
        return sum(int(node["Actual Rows"] * node["Actual Loops"]) for node in _nodes(plan["Plan"]))

    return app.database.read(analyze)


def _instructions(app: Stepwell, work: Callable[[], Any]) -> int:
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    database: Any = app.database
    connections = [database.connections.writer(), database.connections.reader()]
    for connection in connections:
        connection.set_progress_handler(step, 1)
    try:
        work()
    finally:
        for connection in connections:
            connection.set_progress_handler(None, 0)
    return count


def _leave_statistics_to_us(app: Stepwell) -> None:
    """Or autovacuum would gather some in the middle of a test."""
    if not _is_sqlite(app):
        with psycopg.connect(app.database.url, autocommit=True) as connection:
            tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema").fetchall()
            for (table,) in tables:
                connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())


def _analyze(app: Stepwell) -> None:
    if _is_sqlite(app):
        app.database.transact(lambda tx: tx.fetch("ANALYZE", {}))
    else:
        with psycopg.connect(app.database.url, autocommit=True) as connection:
            connection.execute("ANALYZE")


def _is_sqlite(app: Stepwell) -> bool:
    return app.database.dialect == "sqlite"


def _scans(app: Stepwell, tx: Transaction, name: str, large: Collection[str] = LARGE) -> list[str]:
    return _scans_of(app, tx, name, _sql(app)[name], large)


def _scans_of(app: Stepwell, tx: Transaction, name: str, sql: str, large: Collection[str]) -> list[str]:
    names = set(re.findall(r"(?<!:):(\w+)" if _is_sqlite(app) else r"%\((\w+)\)s", sql))
    values = {parameter: _value(tx, parameter, app) for parameter in names}
    if name in WITH_IDS_OF_WORKFLOWS:
        uuids = ARRAYS["workflows"]
        values |= dict.fromkeys(("id", "first", "last"), uuids[0]) | {"ids": adapt(uuids) if _is_sqlite(app) else uuids}
    if name in BEFORE_A_WORKFLOW:
        values["before"] = ARRAYS["workflows"][0]
    texts = parts_of(sql) if _is_sqlite(app) else [sql]
    return [scan for text in texts for scan in _plan_scans(app, tx, text, values, large)]


def _value(tx: Transaction, parameter: str, app: Stepwell) -> Any:
    if parameter in ARRAYS:
        return adapt(ARRAYS[parameter]) if _is_sqlite(app) else ARRAYS[parameter]
    if parameter in NUMBERS:
        return 1
    if parameter in TIMES:
        return app.database.now()
    if parameter in UUIDS:
        return "00000000-0000-7000-8000-000000000000"
    if parameter in FLAGS:
        return True
    json = {
        "arguments": "{}",
        "progress": "[]",
        "response": "null",
        "data": "null",
        "endings": "[[1, 1, null, 0.1]]",
        **dict.fromkeys(("answer", "bypass_steps", "context", "decision", "definition", "filters", "parameters"), "{}"),
        "tags": "[]",
    }
    return (json | {"group": "alpha"}).get(parameter, "default")


def _plan_scans(
    app: Stepwell, tx: Transaction, sql: str, parameters: dict[str, Any], large: Collection[str] = LARGE
) -> list[str]:
    return (_sqlite_scans if _is_sqlite(app) else _postgres_scans)(tx, sql, parameters, large)


def _sqlite_scans(tx: Transaction, sql: str, parameters: dict[str, Any], large: Collection[str] = LARGE) -> list[str]:
    """Loops in the bytecode that begin at the first row of a large table or of an index of one.

    The bytecode knows no aliases, and shows what views, triggers and automatic indexes read, too. Who refers to a new
    row is looked for only if a reference is open (`FkIfZero` jumps over it).
    """
    if not re.match(r"\s*(--[^\n]*\n\s*)*(WITH|SELECT|UPDATE|INSERT|DELETE)", sql):
        return []
    masters = tx.fetch("SELECT rootpage, name, tbl_name FROM sqlite_master WHERE rootpage > 0", {})
    roots = {row["rootpage"]: row["name"] for row in masters if row["tbl_name"] in large}
    cursors: dict[int, int] = {}
    scans = []
    jumped_over = 0
    for row in tx.fetch(f"EXPLAIN {sql}", parameters):
        if row["opcode"] == "FkIfZero":
            jumped_over = row["p2"]
        if row["addr"] < jumped_over:
            continue
        if row["opcode"] in ("OpenRead", "OpenWrite", "ReopenIdx") and row["p3"] == 0:
            cursors[row["p1"]] = row["p2"]
        elif row["opcode"].startswith("Open"):
            cursors.pop(row["p1"], None)
        elif row["opcode"] in ("Rewind", "Last") and cursors.get(row["p1"]) in roots:
            scans.append(f"scan of {roots[cursors[row['p1']]]}")
    return scans


def _postgres_scans(tx: Transaction, sql: str, parameters: dict[str, Any], large: Collection[str] = LARGE) -> list[str]:
    """A sequential scan of a large table, or an index of one that is read without a condition."""
    if not re.match(r"\s*(--[^\n]*\n\s*)*(WITH|SELECT|UPDATE|INSERT|DELETE)", sql):
        return []
    for setting in re.findall(r"set_config\('(enable_\w+)', 'off', true\)", tx_settings()):
        tx.fetch(f"SELECT set_config('{setting}', 'off', true)", {})
    return _complaints(tx.fetch(f"EXPLAIN (FORMAT JSON) {sql}", parameters), large)


def _complaints(explained: list[dict[str, Any]], large: Collection[str] = LARGE) -> list[str]:
    (plan,) = json.loads(explained[0]["QUERY PLAN"])
    return [text for node in _nodes(plan["Plan"]) if (text := _complaint(node, large))]


def tx_settings() -> str:
    """The statement with which every transaction of a tick begins: it keeps the planner to indexes."""
    return statements("ticks", "postgres")["fence"]


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)


def _complaint(node: dict[str, Any], large: Collection[str]) -> str | None:
    kind, table = node["Node Type"], node.get("Relation Name")
    if node.get("Index Name") == "steps_operations_previews":
        return None  # previews are deleted after a day
    if kind == "Seq Scan" and table in large:
        return f"Seq Scan of {table}"
    if kind in ("Index Scan", "Index Only Scan") and table in large and "Index Cond" not in node:
        return f"{kind} of all of {node['Index Name']}"
    return None
