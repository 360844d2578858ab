"""Limits hold at every moment, with four processes that try to exceed them."""

from __future__ import annotations

import random

import pytest

from stepwell import NewStep, Stepwell
from stepwell.dispatch.dispatcher import Dispatcher
from stepwell.model.claimed import Claim
from stepwell.run.claim import Claimer
from stepwell.run.finish import Finisher
from stepwell.run.worker_row import WorkerRow
from stepwell.store import Transaction
from tests.conformance.support.engine import in_processes, returned

STEPS = 160
TOTAL, OF_MAIL, OF_CANDLES, OF_KEY = 7, 3, 4, 2


@pytest.mark.slow
def test_four_processes_never_exceed_a_limit(shared_database_url: str) -> None:
    with Stepwell(shared_database_url) as app:
        app.limits.set("total", maximum=TOTAL)
        app.limits.set("action", "mail", OF_MAIL)
        app.limits.set("queue", "candles", OF_CANDLES)
        app.enqueue_many(
            NewStep(
                action="mail" if number % 2 else "report",
                queue="candles" if number % 3 else "default",
                concurrency_key=f"key {number % 5}" if number % 4 == 0 else None,
                concurrency_limit=OF_KEY,
            )
            for number in range(STEPS)
        )
    results = in_processes(greedy, [(shared_database_url, seed) for seed in range(4)])
    assert sum(done for done, _ in results) == STEPS
    most = {name: max(seen[name] for _, seen in results) for name in ("total", "mail", "candles", "key")}
    assert most["total"] <= TOTAL
    assert most["mail"] <= OF_MAIL
    assert most["candles"] <= OF_CANDLES
    assert most["key"] <= OF_KEY
    assert most["total"] > 1, "the processes have not met at all"
    with Stepwell(shared_database_url) as app:
        assert app.stats().states["Completed"] == STEPS
        assert app.check_invariants() == []


def greedy(url: str, seed: int) -> tuple[int, dict[str, int]]:
    """Claim as much as there is, again and again; returns what it ended, and the most that it saw running."""
    chance = random.Random(seed)
    most = {"total": 0, "mail": 0, "candles": 0, "key": 0}
    done = 0
    with Stepwell(url) as app:
        row = WorkerRow(app.database, ["default", "candles"], {"mail", "report"}, 50)
        claimer, finisher, dispatcher = Claimer(app.database, row), Finisher(app.database), app.dispatcher()
        held: list[Claim] = []
        while held or _any_left(app, dispatcher):
            held += app.database.transact(lambda tx: claimer.claim(tx, 20))
            for name, count in app.database.read(_running).items():
                most[name] = max(most[name], count)
            chance.shuffle(held)
            ends = chance.randint(min(1, len(held)), len(held))
            for _ in range(ends):
                assert returned(finisher, held.pop(), None) is not None
                done += 1
    return done, most


def _any_left(app: Stepwell, dispatcher: Dispatcher) -> bool:
    dispatcher.round()
    return bool(app.steps(state="Pending", limit=1) or app.steps(state="Dispatched", limit=1))


def _running(tx: Transaction) -> dict[str, int]:
    """One look at all leases at one moment."""
    rows = tx.fetch(
        "SELECT queue, action, concurrency_key, count(*) AS n FROM steps WHERE lease_worker IS NOT NULL"
        " GROUP BY queue, action, concurrency_key",
        {},
    )
    keys: dict[str, int] = {}
    for row in rows:
        if row["concurrency_key"] is not None:
            keys[row["concurrency_key"]] = keys.get(row["concurrency_key"], 0) + row["n"]
    return {
        "total": sum(row["n"] for row in rows),
        "mail": sum(row["n"] for row in rows if row["action"] == "mail"),
        "candles": sum(row["n"] for row in rows if row["queue"] == "candles"),
        "key": max(keys.values(), default=0),
    }
