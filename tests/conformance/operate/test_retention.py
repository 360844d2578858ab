"""Retention removes whole settled workflows and nothing else, with all that belongs to them."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from stepwell import Job, NewStep, StepNotFound, Stepwell
from stepwell.model.errors import StepArchived, StepwellError
from stepwell.operate.retention import Removed, RetentionOptions
from stepwell.testing import ManualClock, behave
from tests.conformance.processes.crystal import Tasks
from tests.conformance.support.engine import Engine, failed, other_app

DAY = 86_400.0
TERMINAL = {"Completed", "Skipped", "Failed", "Stopped", "Cancelled", "NotRunnable"}
OF_STEPS = ("step_transitions", "step_logs", "step_dependencies", "step_answers", "steps_unconcluded", "steps_agenda")
OUTCOMES = ("ok", "ok", "ok", "fail", "stop", "skip", "raise/ok")


def random_line(rng: random.Random, prefix: str) -> str:
    """A tree in the language of `Engine.plant`."""
    count = 0

    def step(depth: int) -> str:
        nonlocal count
        count += 1
        text = f"{'!' if depth and rng.random() < 0.15 else ''}{prefix}{count}:{rng.choice(OUTCOMES)}"
        if depth < 2 and rng.random() < 0.4:
            text += f"({block(depth + 1)})"
        return text

    def block(depth: int) -> str:
        text = step(depth)
        for _ in range(rng.randrange(3)):
            text += rng.choice((", ", " > ")) + step(depth)
        return text

    return block(0)


def rows_by_step(engine: Engine) -> dict[str, dict[int, list[Any]]]:
    """Everything that belongs to a step, by table."""
    found: dict[str, dict[int, list[Any]]] = {}
    for table in ("steps", *OF_STEPS):
        grouped = found.setdefault(table, defaultdict(list))
        for row in engine.sql(f"SELECT * FROM {table}"):
            grouped[row["id" if table == "steps" else "step_id"]].append(row)
    return found


def expected_to_go(engine: Engine, cutoff: Any) -> set[int]:
    """The rule of S23, written again over all rows."""
    steps = engine.sql("SELECT * FROM steps")
    marked = {row["step_id"] for row in engine.sql("SELECT step_id FROM steps_marks")}
    workflows = defaultdict(list)
    for row in steps:
        workflows[str(row["workflow_id"])].append(row)
    going: set[int] = set()
    for members in workflows.values():
        over = all(
            row["state"] in TERMINAL and row["lease_worker"] is None and row["updated_at"] < cutoff for row in members
        )
        due = any(
            row["reason"] == "dormant"
            and row["parent_step_id"] is None
            and any(x["state"] in ("Failed", "Stopped") and x["block_uuid"] == row["block_uuid"] for x in members)
            for row in members
        )
        if over and not due and marked.isdisjoint(row["id"] for row in members):
            going |= {row["id"] for row in members}
    return going


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("archives", [False, True])
def test_only_whole_settled_trees_go_and_nothing_else_changes(
    engine: Engine, clock: ManualClock, seed: int, archives: bool
) -> None:
    """S23, on random trees of which some have not begun, some run, some wait for a tick and some are too young."""
    rng = random.Random(f"retention {seed}")
    app = engine.app
    for number in range(6):
        engine.plant(random_line(rng, f"old{number}_"))
    engine.settle()
    with engine.worker() as runner:
        for number in range(3):
            engine.plant(random_line(rng, f"begun{number}_"))
        app.dispatch_once()
        claims = runner.claim(rng.randrange(1, 5))
        for claim in claims[: len(claims) // 2]:
            app.cancel(claim.step_id, who="tester")  # its lease is still held
        clock.advance(5 * DAY)
        for number in range(2):
            engine.plant(random_line(rng, f"young{number}_"))
        cutoff = clock.now() - timedelta(days=2)
        stored = engine.sql("SELECT :cutoff AS moment", cutoff=cutoff)[0]["moment"]
        before, going = rows_by_step(engine), expected_to_go(engine, stored)
        method = app.retention.archive if archives else app.retention.prune
        counted = method(before=cutoff, dry_run=True)
        assert rows_by_step(engine) == before
        removed = method(before=cutoff)
        after = rows_by_step(engine)
        assert before["steps"].keys() - after["steps"].keys() == going, f"seed {seed}"
        assert going
        assert (removed.steps, removed.workflows) == (counted.steps, counted.workflows)
        assert removed.steps == len(going)
        for table, rows in before.items():
            assert after[table] == {id: row for id, row in rows.items() if id not in going}, table
        archive = {row["id"]: row for row in engine.sql("SELECT * FROM steps_archive")}
        assert archive.keys() == (going if archives else set())
        for id, row in archive.items():
            assert before["steps"][id] == [{name: row[name] for name in before["steps"][id][0]}]
        assert method(before=cutoff) == Removed()
        assert app.check_invariants() == []


def test_the_archive_has_the_columns_of_the_tables_that_it_keeps(engine: Engine) -> None:
    for live, archive, more in (("steps", "steps_archive", 6), ("steps_workflows", "steps_archived_workflows", 3)):
        assert columns(engine, archive)[more:] == columns(engine, live)


def columns(engine: Engine, table: str) -> list[str]:
    if engine.app.database.dialect == "sqlite":
        return [row["name"] for row in engine.sql(f"SELECT name FROM pragma_table_info('{table}')")]
    return [
        row["column_name"]
        for row in engine.sql(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_name = :t AND table_schema = current_schema() ORDER BY ordinal_position",
            t=table,
        )
    ]


def test_ids_are_never_given_out_again(engine: Engine, clock: ManualClock) -> None:
    refs = engine.plant("a, b, c")
    engine.settle()
    clock.advance(DAY)
    assert engine.app.retention.prune(keep_days=0).steps == 3
    assert engine.app.steps() == []
    again = engine.plant("d")["d"]
    assert again.id > max(ref.id for ref in refs.values())
    with pytest.raises(StepNotFound, match=rf"retention has deleted settled workflows with steps up to {again.id - 1}"):
        engine.app.step(refs["a"])


def test_a_handler_that_waits_for_its_promotion_keeps_its_block(engine: Engine, clock: ManualClock) -> None:
    """Also if no tick has run for a month and the mark was lost."""
    engine.plant("a:fail, !h")
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "a")
        failed(engine.app._finisher, claim, "no")
    clock.advance(40 * DAY)
    assert engine.states("a", "h") == {"a": "Failed", "h": "NotRunnable"}
    assert engine.app.retention.prune().steps == 0
    engine.change("DELETE FROM steps_marks")
    assert engine.app.retention.prune().steps == 0
    engine.app.sweep()
    engine.settle()
    assert engine.state("h") == "Completed"
    clock.advance(40 * DAY)
    assert engine.app.retention.prune().steps == 2


def test_a_lease_that_is_held_keeps_the_whole_workflow(engine: Engine, clock: ManualClock) -> None:
    """The step was cancelled, but its process has not ended yet."""
    workflow = str(uuid4())
    engine.add("ended", workflow=workflow)
    engine.settle()
    engine.add("held", workflow=workflow)
    with engine.worker() as runner:
        engine.claim(runner, "held")
        engine.app.cancel(engine.refs["held"], who="tester")
        clock.advance(40 * DAY)
        assert engine.states() == {"ended": "Completed", "held": "Cancelled"}
        assert engine.app.retention.prune().steps == 0
        engine.app.reaper().round()
    clock.advance(40 * DAY)
    assert engine["held"].lease_worker is None
    assert engine.app.retention.prune().steps == 2


def test_a_key_finds_its_step_for_as_long_as_it_is_promised_to(app: Stepwell, clock: ManualClock) -> None:
    job = behave(app)
    first = job.options(key="order-7").enqueue()
    app.run_until_idle()
    clock.advance(10 * DAY)
    removed = app.retention.prune(keep_days=1)
    assert (removed.steps, removed.kept_for_keys) == (0, 1)
    assert job.options(key="order-7").enqueue() == first
    clock.advance(21 * DAY)  # the configured 30 days are over
    assert app.retention.prune(keep_days=1).steps == 1
    assert job.options(key="order-7").enqueue() != first


def test_the_identity_of_a_workflow_is_promised_as_long(app: Stepwell, clock: ManualClock) -> None:
    behave(app)
    workflow = app.workflows("shop").workflow("w")
    workflow.step()(lambda_free_step)
    run = workflow.start({}, key="mine")
    app.run_until_idle()
    clock.advance(10 * DAY)
    assert app.retention.prune(keep_days=1).kept_for_keys == 1
    assert app.retention.prune(keep_days=1, key_days=5).workflows == 1
    with pytest.raises(StepwellError, match=f"no declared workflow has the id {run.id}"):
        run.row()
    assert workflow.start({}, key="mine").id != run.id


def lambda_free_step() -> int:
    return 1


def test_an_archived_step_can_be_shown_but_not_changed(engine: Engine, clock: ManualClock) -> None:
    app = engine.app

    @app.job(name="talks")
    class Talks(Job):
        def compute(self) -> int:
            self.log("hello")
            return 42

    handle = Talks.enqueue()  # type: ignore[attr-defined]
    app.run_until_idle()
    step, history, logs = app.step(handle), app.history(handle), app.logs(handle)
    moment = clock.now()
    clock.advance(31 * DAY)
    assert app.retention.archive() == Removed(workflows=1, steps=1)
    assert engine.sql("SELECT * FROM step_logs") == engine.sql("SELECT * FROM step_transitions") == []
    archived = app.reader.archived(handle)
    assert archived is not None
    assert (archived.step, archived.history, archived.logs) == (step, history, logs)
    assert archived.archived_at == clock.now()
    assert app.reader.archived(step.uuid) == archived
    assert handle.result(timeout=5) == 42
    for act in (
        lambda: app.step(handle),
        lambda: app.explain(step.id),
        lambda: app.step_at(step.id, moment),
        lambda: app.retry(step.id, who="me"),
        lambda: app.actions.retry(step.id, "me", None),
    ):
        with pytest.raises(StepArchived, match=rf"step {step.id} \(.*talks\) was archived on 20\d\d-\d\d-\d\d"):
            act()
    with pytest.raises(StepwellError, match=f"workflow {step.workflow_id} was archived on"):
        app.workflow_at(str(step.workflow_id), moment)
    clock.advance(366 * DAY)
    assert app.retention.prune() == Removed(from_archive=1)
    assert app.reader.archived(handle) is None


def test_a_declared_workflow_goes_with_everything_that_it_has(engine: Engine, clock: ManualClock) -> None:
    app = engine.app
    flow = app.workflows("shop").workflow("gated")
    first = flow.step()(lambda_free_step)
    gate = flow.gate("approval", after=[first], result=int)
    run = flow.start({})
    app.run_until_idle()
    clock.advance(31 * DAY)
    assert app.retention.prune().steps == 0  # it waits for an answer
    run.answer(gate, 7, who="alice", why="fine")
    app.run_until_idle()
    app.pause_workflow(run.steps()["approval"].id, who="bob")
    clock.advance(31 * DAY)
    assert app.retention.archive() == Removed(workflows=1, steps=2)
    for table in ("steps_workflows", "steps_workflow_transitions", "step_answers", "steps_paused_workflows",
                  "steps_operation_items", "steps_operations", *OF_STEPS):  # fmt: skip
        assert engine.sql(f"SELECT * FROM {table}") == [], table
    (row,) = engine.sql("SELECT * FROM steps_archived_workflows")
    assert (row["name"], row["state"]) == ("gated", "complete")
    (gate_row,) = engine.sql("SELECT id FROM steps_archive WHERE kind = 'gate'")
    archived = app.reader.archived(gate_row["id"])
    assert archived is not None
    assert archived.answer is not None
    assert (archived.answer["answer"], archived.answer["answered_by"]) == (7, "operator:alice")
    for act in (run.row, lambda: run.rerun("approval", who="me"), lambda: run.cancel(who="me")):
        with pytest.raises(StepwellError, match=f"workflow {run.id} was archived on"):
            act()


def test_the_live_step_of_a_task_stays(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("both")
    app.run_until_idle()
    tasks.processes.queue("both")
    app.run_until_idle()
    clock.advance(90 * DAY)
    assert app.retention.prune().steps == 2
    assert tasks.states() == {"other": "completed", "dependee": "completed"}
    assert {step.id for step in app.steps()} == {tasks.step_of("other"), tasks.step_of("dependee")}


def test_executions_and_the_ledger_follow_their_steps(app: Stepwell, clock: ManualClock) -> None:
    @app.job()
    def report() -> None: ...

    app.schedules.create("s", "0 3 * * *", "report", who="alice")
    for _ in range(40):
        clock.advance(DAY)
        app.schedules.run_once()
        app.run_until_idle()
    (before,) = app.schedules.list()
    assert len(app.schedules.slots("s", limit=100)) == 40
    assert app.retention.prune(keep_days=9.5).steps == 30
    executions, slots = app.schedules.executions("s", limit=100), app.schedules.slots("s", limit=100)
    assert len(executions) == len(slots) == 10
    (after,) = app.schedules.list()
    assert after.last_success == before.last_success
    assert app.schedules.check_ledger() == []
    clock.advance(DAY)
    app.schedules.run_once()
    assert app.schedules.check_ledger() == []
    assert len(app.schedules.slots("s", limit=100)) == 11


def test_a_parent_of_a_row_of_plain_sql_stays_until_that_row_is_placed(engine: Engine, clock: ManualClock) -> None:
    ref = engine.plant("a")["a"]
    engine.settle()
    clock.advance(40 * DAY)
    engine.change("INSERT INTO steps (action, parent_step_id) VALUES ('behave', :id)", id=ref.id)
    assert engine.app.retention.prune().steps == 0
    engine.tick()  # the parent has ended: the row is refused, and is nobody's child
    assert engine.app.retention.prune().steps == 1


def test_what_another_transaction_works_on_waits_for_the_next_pass(postgres_url: str, clock: ManualClock) -> None:
    import psycopg

    with Stepwell(postgres_url, clock=clock) as app, psycopg.connect(postgres_url) as other:
        behave(app)
        busy, free = app.enqueue("behave"), app.enqueue("behave")
        app.run_until_idle()
        clock.advance(40 * DAY)
        other.execute("SELECT 1 FROM steps WHERE id = %s FOR UPDATE", (busy.id,))
        assert app.retention.prune().steps == 1
        assert [step.id for step in app.steps()] == [busy.id]
        assert free.id != busy.id
        other.rollback()
        assert app.retention.prune().steps == 1


def test_a_pass_goes_on_where_another_process_has_left_it(engine: Engine, clock: ManualClock) -> None:
    app = engine.app
    app.retention.options = RetentionOptions(batch=10)
    app.enqueue_many([NewStep(action="behave") for _ in range(35)])
    engine.settle()
    clock.advance(31 * DAY)
    first, second = app.parts.retention(), app.parts.retention()
    first.open()
    assert first.round(()) <= 1
    assert len(app.steps(limit=100)) == 25
    second.open()
    assert second.round(()) == 60  # the first one makes this pass
    assert len(app.steps(limit=100)) == 25
    assert app.retention.status().is_running
    clock.advance(61)  # it is dead
    while app.steps():
        second.round(())
        clock.advance(1)
    clock.advance(60)
    second.round(())
    status = app.retention.status()
    assert (status.steps, status.backlog, status.is_behind, status.is_running) == (35, 0, False, False)
    assert status.last_run is not None
    assert second.round(()) > 60
    second.close()


def test_retention_says_so_when_it_is_behind(engine: Engine, clock: ManualClock) -> None:
    app = engine.app
    seen: list[Any] = []
    app.events.on("retention.behind")(seen.append)
    app.retention.options = RetentionOptions(batch=10)
    part = app.parts.retention()
    part.open()
    part.round(())  # a first pass, with nothing to do
    app.enqueue_many([NewStep(action="behave") for _ in range(35)])
    engine.settle()
    clock.advance(33 * DAY)
    status = app.retention.status()
    assert (status.backlog, status.is_behind) == (35, True)
    assert "behind by" in str(status)
    part.round(())
    app.events.flush()
    assert [event.backlog for event in seen] == [25]
    part.round(())
    clock.advance(1)
    for _ in range(10):
        part.round(())
        clock.advance(2)
    app.events.flush()
    assert len(seen) == 1
    assert not app.retention.status().is_behind


def test_one_setting_keeps_everything(engine: Engine, clock: ManualClock) -> None:
    app = engine.app
    app.retention.options = RetentionOptions(keep_days=math.inf)
    engine.plant("a")
    engine.settle()
    clock.advance(3_000 * DAY)
    part = app.parts.retention()
    part.open()
    part.round(())
    part.close()
    assert app.retention.prune() == Removed()
    assert app.retention.status().keep_days is None
    assert str(app.retention.status()) == "everything is kept"
    assert len(app.steps()) == 1


@pytest.mark.sqlite_file
def test_several_at_once_remove_each_workflow_once(shared_database_url: str, clock: ManualClock) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with Stepwell(shared_database_url, clock=clock) as app:
        behave(app)
        app.enqueue_many([NewStep(action="behave") for _ in range(200)])
        app.run_until_idle()
        clock.advance(31 * DAY)

        def prune(_: int) -> int:
            with other_app(shared_database_url, clock) as other:
                other.retention.options = RetentionOptions(batch=20)
                return other.retention.archive().steps

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(prune, range(4))) == 200
        assert app.steps() == []
        assert app.check_invariants() == []
