"""Main processes with many programs at once: one live row for each task, never more running than there are slots."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from stepwell import Stepwell
from stepwell.model.claimed import Claim
from stepwell.processes.errors import TaskStateError
from stepwell.run.claim import Claimer
from stepwell.run.finish import Finisher
from stepwell.run.inline import InlineRunner
from stepwell.run.worker_row import WorkerRow
from stepwell.store import Transaction
from tests.conformance.support.engine import in_processes, returned

TASK = {"timeout": 60, "cooldown": 0}
SPLIT = {**TASK, "range_strategy": "HashRange", "resources": 4, "entity_uid": "customers.id"}
SLOTS = 3


def configured(url: str, **settings: Any) -> Stepwell:
    """Three classes, one of them in parts and two without an entity; some are in several main processes."""
    app = Stepwell(url)
    for name in ("sync", "report", "mail"):
        app.job(name=name)(lambda: None)
    app.main_processes.configure(
        {
            "main_processes": {
                "one": {"tasks": [{"class": "sync"}, {"class": "report", "depend_on": "sync"}]},
                "two": {"tasks": [{"class": "mail"}, {"class": "report", "depend_on": "sync"}]},
                "three": {"tasks": [{"class": "report"}, {"class": "mail"}, {"class": "sync"}]},
            },
            "tasks": {
                "sync": {"class": "sync", **SPLIT},
                "report": {"class": "report", **TASK},
                "mail": {"class": "mail", **TASK},
            },
            "max_execution_slots": SLOTS,
            **settings,
        }
    )
    return app


def queue_often(url: str, seed: int, rounds: int, runs: bool) -> Counter[str]:
    """Queue main processes in random order; with `runs`, also run and reschedule tasks between."""
    chance, counts = random.Random(seed), Counter[str]()
    with configured(url) as app:
        runner = app.inline_runner(slots=2) if runs else None
        for _ in range(rounds):
            try:
                queued = app.main_processes.queue(chance.choice(["one", "two", "three"]))
                counts.update(new=len(queued.new), kept=len(queued.kept), passed_over=len(queued.passed_over))
            except TaskStateError:
                counts["refused"] += 1
            if runner is not None:
                counts["runs"] += run_some(app, runner, chance)
        if runner is not None:
            runner.close()
    return counts


def run_some(app: Stepwell, runner: InlineRunner, chance: random.Random) -> int:
    app.dispatch_once()
    claims = runner.claim(2)
    for claim in claims:
        returned(app._finisher, claim, None)
    if chance.random() < 0.5:
        app.main_processes.reschedule()
    return len(claims)


def live_rows(tx: Transaction) -> list[tuple[str, str | None, str | None]]:
    rows = tx.fetch(
        "SELECT label, relatable_type, relatable_id FROM steps"
        " WHERE belongs_to = 'process' AND state IN ('Pending', 'Dispatched', 'Running')",
        {},
    )
    return [(row["label"], row["relatable_type"], row["relatable_id"]) for row in rows]


@pytest.mark.slow
def test_eight_processes_that_queue_at_once_leave_one_live_row_for_each_task(shared_database_url: str) -> None:
    counts: Counter[str] = sum(
        in_processes(queue_often, [(shared_database_url, seed, 12, False) for seed in range(8)]), Counter()
    )
    assert counts["new"] == 6  # four parts, and two tasks without an entity
    assert counts["kept"] > 6
    assert counts["refused"] == counts["passed_over"] == 0
    with Stepwell(shared_database_url) as app:
        live = app.database.read(live_rows)
        assert sorted(live, key=str) == [
            ("mail", None, None),
            ("report", None, None),
            *[("sync", "customers.id", f"{number}/4") for number in range(1, 5)],
        ]
        assert app.check_invariants() == []


@pytest.mark.slow
def test_no_two_steps_of_a_task_are_ever_live_while_others_queue_and_run_it(shared_database_url: str) -> None:
    results = in_processes(queue_often, [(shared_database_url, seed, 20, seed % 2 == 0) for seed in range(4)])
    counts: Counter[str] = sum(results, Counter())
    assert counts["runs"] > 20
    assert counts["new"] > 20, counts
    with Stepwell(shared_database_url) as app:
        assert app.database.read(overlaps) == []
        assert app.check_invariants() == []
        assert app.sweep() == []


def overlaps(tx: Transaction) -> list[str]:
    """Steps that were created while another step of their task was live, by the numbers of the history."""
    rows = tx.fetch(
        "SELECT s.label, s.relatable_id, s.id, min(x.id) AS first, max(x.id) AS last,"
        " max(CASE WHEN s.state IN ('Pending', 'Dispatched', 'Running') THEN 1 ELSE 0 END) AS live"
        " FROM steps s JOIN step_transitions x ON x.step_id = s.id WHERE s.belongs_to = 'process'"
        " GROUP BY s.label, s.relatable_id, s.id ORDER BY s.label, s.relatable_id, s.id",
        {},
    )
    found, before = [], None
    for row in rows:
        same = before is not None and (row["label"], row["relatable_id"]) == (before["label"], before["relatable_id"])
        if same and before is not None and (before["live"] or before["last"] > row["first"]):
            found.append(f"{row['label']} {row['relatable_id']}: step {before['id']} was live beside step {row['id']}")
        before = row
    return found


@pytest.mark.slow
def test_four_executors_never_run_more_tasks_than_there_are_slots(shared_database_url: str) -> None:
    results = in_processes(execute_greedily, [(shared_database_url, seed) for seed in range(4)])
    assert sum(done for done, _ in results) >= 4 * 40
    most = max(seen for _, seen in results)
    assert most == SLOTS, f"{most} of {SLOTS} slots were used at once"
    with Stepwell(shared_database_url) as app:
        assert app.check_invariants() == []


def execute_greedily(url: str, seed: int) -> tuple[int, int]:
    """An executor that claims all it can get; returns its runs, and the most that it saw running at one moment."""
    chance, done, most = random.Random(seed), 0, 0
    with configured(url) as app:
        app.main_processes.apply_to_workers()
        row = WorkerRow(app.database, ["main-processes"], {"sync", "report", "mail"}, 10)
        claimer, finisher = Claimer(app.database, row), Finisher(app.database, app._creator)
        held: list[Claim] = []
        while held or done < 40:
            keep_busy(app)
            held += app.database.transact(lambda tx: claimer.claim(tx, 10))
            most = max(most, app.database.read(running))
            for _ in range(chance.randint(min(1, len(held)), len(held))):
                returned(finisher, held.pop(), None)
                done += 1
    return done, most


def keep_busy(app: Stepwell) -> None:
    try:
        app.main_processes.queue("one")
    except TaskStateError:  # a part is running
        app.main_processes.reschedule()
    app.dispatch_once()


def running(tx: Transaction) -> int:
    query = "SELECT count(*) AS n FROM steps WHERE lease_worker IS NOT NULL AND belongs_to = 'process'"
    return int(tx.fetch(query, {})[0]["n"])
