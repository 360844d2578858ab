"""Priority strategies under load: each class gets its share of the runs, and none starves."""

from __future__ import annotations

import pytest

from stepwell import Stepwell
from stepwell.model.claimed import Claim
from stepwell.run.claim import Claimer
from stepwell.run.ending import Ending
from stepwell.run.worker_row import WorkerRow
from stepwell.store import Transaction
from tests.conformance.support.engine import in_processes

PRIORITIES = {"gold": 20, "silver": 10, "bronze": 10}
RUNS, EXECUTORS, SLOTS, SLOTS_OF_ONE = 2_000, 4, 12, 5  # together they want more than there are


def configured(url: str, strategy: str = "DivideTotalValueEqually") -> Stepwell:
    """Classes of sixteen parts each. They depend on one that is never queued, so that running parts are passed over."""
    app = Stepwell(url)
    for name in (*PRIORITIES, "never"):
        app.job(name=name)(lambda: None)
    split = {"timeout": 60, "cooldown": 0, "range_strategy": "HashRange", "resources": 16, "entity_uid": "customers.id"}
    app.main_processes.configure(
        {
            "max_execution_slots": SLOTS,
            "priority_strategy": strategy,
            "main_processes": {name: {"tasks": [{"class": name, "depend_on": "never"}]} for name in PRIORITIES},
            "tasks": {name: {"class": name, "priority": priority, **split} for name, priority in PRIORITIES.items()}
            | {"never": {"class": "never", "timeout": 1, "cooldown": 1, "priority": 1}},
        }
    )
    return app


def execute(url: str, runs: int, strategy: str) -> int:
    """An executor that queues a class before its last tasks are claimed.

    A run ends when it is among the oldest of all executors: so all take equally long, however busy the machine is.
    """
    with configured(url, strategy) as app:
        app.main_processes.apply_to_workers()
        row = WorkerRow(app.database, ["main-processes"], set(PRIORITIES), SLOTS_OF_ONE, alive_seconds=3_600)
        claimer = Claimer(app.database, row, app.main_processes.strategy(), app.jobs.weights())
        running: list[Claim] = []
        done = 0
        while done < runs:
            by_age = app.database.read(running_tasks)
            oldest = set(by_age[: max(1, len(by_age) - SLOTS_OF_ONE)])
            if ended := [claim for claim in running if claim.step_id in oldest]:
                end_all(app, ended)
                done += len(ended)
                running = [claim for claim in running if claim.step_id not in oldest]
            if len(by_age) - len(ended) < SLOTS and len(running) < SLOTS_OF_ONE:
                for name, waiting in app.database.read(waiting_tasks).items():
                    if waiting <= SLOTS_OF_ONE:
                        app.main_processes.queue(name)
                running += claim_all(app, claimer, SLOTS_OF_ONE - len(running))
        end_all(app, running)
    return done


def claim_all(app: Stepwell, claimer: Claimer, limit: int) -> list[Claim]:
    return app.database.transact(lambda tx: claimer.claim(tx, limit))


def end_all(app: Stepwell, claims: list[Claim]) -> None:
    app._finisher.write_all([(claim, Ending(verb="finish", duration=0.1)) for claim in claims])


def waiting_tasks(tx: Transaction) -> dict[str, int]:
    query = "SELECT action, count(*) AS n FROM steps_agenda WHERE status IN ('open', 'dispatched') GROUP BY action"
    return dict.fromkeys(PRIORITIES, 0) | {row["action"]: row["n"] for row in tx.fetch(query, {})}


def running_tasks(tx: Transaction) -> list[int]:
    """The oldest run first."""
    query = "SELECT s.id FROM steps_agenda a JOIN steps s ON s.id = a.step_id WHERE a.status = 'running'"
    return [row["id"] for row in tx.fetch(f"{query} ORDER BY s.started_at, s.id", {})]


def order_of_runs(tx: Transaction) -> list[str]:
    runs = "SELECT id, step_id FROM step_transitions WHERE to_state = 'Running'"
    query = f"SELECT s.action FROM ({runs}) AS x JOIN steps s ON s.id = x.step_id ORDER BY x.id"
    return [row["action"] for row in tx.fetch(query, {})]


@pytest.mark.slow
def test_each_class_gets_its_share_of_two_thousand_runs_of_four_executors_and_none_starves(
    shared_database_url: str,
) -> None:
    call = (shared_database_url, RUNS // EXECUTORS, "DivideTotalValueEqually")
    assert sum(in_processes(execute, [call] * EXECUTORS)) >= RUNS
    with configured(shared_database_url) as app:
        shares = {share.task_class: share for share in app.main_processes.shares(RUNS)}
        assert sum(share.runs for share in shares.values()) == RUNS
        for name, priority in PRIORITIES.items():
            share = shares[name]
            assert share.promised == pytest.approx(priority / sum(PRIORITIES.values()))
            assert share.delivered == pytest.approx(share.promised, rel=0.1), shares
        order = app.database.read(order_of_runs)
        windows = [order[start : start + 50] for start in range(0, RUNS - 50, 50)]
        assert all(set(window) == set(PRIORITIES) for window in windows), "a class had no run among 50"
        assert app.check_invariants() == []


def test_by_date_created_the_oldest_tasks_run_first_whatever_their_priority(app: Stepwell) -> None:
    order: list[str] = []
    for name in PRIORITIES:
        app.job(name=name)(lambda name=name: order.append(name))
    task = {"timeout": 60, "cooldown": 5}
    processes = app.main_processes.configure(
        {
            "priority_strategy": "SortByDateCreated",
            "main_processes": {name: {"tasks": [{"class": name}]} for name in PRIORITIES},
            "tasks": {name: {"class": name, "priority": priority, **task} for name, priority in PRIORITIES.items()},
        }
    )
    for name in ("bronze", "gold", "silver"):
        processes.queue(name)
    row = WorkerRow(app.database, ["main-processes"], set(PRIORITIES), 1)
    claimer = Claimer(app.database, row, processes.strategy(), app.jobs.weights())
    claimed = [app.database.transact(lambda tx: claimer.claim(tx, 1))[0].step.action for _ in range(3)]
    assert claimed == ["bronze", "gold", "silver"]
