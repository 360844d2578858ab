"""Real kills: history still rebuilds every moment, and a bulk action that was killed is continued."""

from __future__ import annotations

import multiprocessing
import random
from contextlib import suppress
from datetime import datetime
from typing import Any

from stepwell import NewStep, Stepwell
from stepwell.model.errors import ActionRefused
from stepwell.store import Transaction
from tests.survival.support import WAIT_SECONDS, Cluster

Dump = dict[int, tuple[Any, ...]]


def dump(cluster: Cluster) -> tuple[datetime, Dump]:
    """Every step now. No worker is alive; a write of a killed one that the server has received is waited for."""
    database = cluster.app.database

    def look(tx: Transaction) -> tuple[datetime, Dump]:
        if tx.dialect == "postgres":
            tx.execute("LOCK TABLE steps IN SHARE MODE", {})
        when = database.exact_now(tx)
        rows = tx.fetch("SELECT id, state, reason, actor, attempts FROM steps", {})
        return when, {r["id"]: (r["state"], r["reason"], r["actor"], r["attempts"]) for r in rows}

    return database.transact(look)


def test_history_rebuilds_every_moment_of_a_run_with_kills_and_retries(cluster: Cluster) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    rng = random.Random(seed)
    app = cluster.app
    for number in range(6):
        cluster.add(f"step {number}", rng.choice(["", "sys.exit", "sleep"]), seconds=0.05, max_retries=1)
        root = NewStep(action="act", label=f"root {number}")
        refs = app.enqueue_many([root, NewStep(action="act", label=f"leaf {number}", parent=root)])
        cluster.refs |= {f"root {number}": refs[0], f"leaf {number}": refs[1]}
    dumps = [dump(cluster)]
    for _ in range(3):
        worker = cluster.start()
        goal = len(list(cluster.run_log())) + rng.randrange(2, 6)
        cluster.until(lambda goal=goal: len(list(cluster.run_log())) >= goal)  # type: ignore[misc]
        worker.kill()
        cluster.until_gone(worker.descendant_pids())
        dumps.append(dump(cluster))
        for ref in rng.sample(list(cluster.refs.values()), 4):
            with suppress(ActionRefused):
                rng.choice([app.retry, app.cancel, app.reset_attempts])(ref, who="ann")
        dumps.append(dump(cluster))
        app.operations.preview("retry", state=["Failed", "Cancelled"]).execute(who="ben")
        dumps.append(dump(cluster))
        cluster.until(lambda: not [each for each in app.steps(state="Running") if each.lease_worker is not None])
        dumps.append(dump(cluster))
    assert len({str(taken) for _, taken in dumps}) > 5
    for when, taken in dumps:
        found = [app.step_at(ref, when) for ref in cluster.refs.values()]
        rebuilt = {then.id: (then.state, then.reason, then.actor, then.attempt) for then in found if then is not None}
        assert rebuilt == taken, when


def execute(url: str, operation: int) -> None:
    with Stepwell(url) as app:
        app.operations.get(operation).run()


def test_a_bulk_action_whose_process_is_killed_is_continued_and_acts_on_no_step_twice(cluster: Cluster) -> None:
    app, total = cluster.app, 300
    refs = app.enqueue_many([NewStep(action="act", label=f"step {number}") for number in range(total)])
    operation = app.operations.preview("cancel", action="act").execute(who="ann", pace="100/second", wait=False)
    process = multiprocessing.get_context("spawn").Process(target=execute, args=(cluster.url, operation.id))
    process.start()
    try:
        cluster.until(lambda: operation.progress().done >= 100, tick=False, reap=False)
    finally:
        process.kill()
        process.join(WAIT_SECONDS)
    assert operation.row().state == "running"
    assert 0 < operation.progress().left < total
    app.operations.get(operation.id).run()
    progress = operation.progress()
    assert (progress.done, progress.left, operation.row().state) == (total, 0, "done")
    assert all([str(each.to_state) for each in app.history(ref)] == ["Pending", "Cancelled"] for ref in refs)
