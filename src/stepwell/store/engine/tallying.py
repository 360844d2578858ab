"""The tally of SQLite's batches, made in Python. For single rows it is an effect: see `schema/sqlite/effects.sql`.

The columns that it needs are here already, with the claims; in SQL, each row would be read and sorted once more.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from stepwell.model.claimed import ClaimedStep
from stepwell.model.states import State
from stepwell.store.engine import counters
from stepwell.store.macros import SQLITE
from stepwell.store.transaction import Transaction

if TYPE_CHECKING:
    from stepwell.store.engine.runs import Success

# Waits and runs of a batch that are recorded: enough for percentiles of a minute.
SAMPLE: Final = 8
WAITS_OF: Final = 0.25  # of the larger batches
_COLUMNS: Final = (
    "from_state", "to_state", "action", "queue", "group", "child", "is_throttled", "number", "runs"
)  # fmt: skip


def tally_created(tx: Transaction, columns: Mapping[str, Sequence[Any]], same: Mapping[str, Any]) -> None:
    """Steps are created, by columns; `same` are those with one value in all rows."""
    usual = {"state": "Pending", "parent_step_id": None, **same}
    keys = zip(
        *(columns.get(name) or repeat(usual[name]) for name in ("state", "action", "queue", "group", "parent_step_id")),
        columns["id"],
        strict=False,
    )
    sums = Counter((*of, parent is not None) for *of, parent, _ in keys)
    rows = [(None, *key, False, number, None) for key, number in sums.items()]
    tx.insert("steps_tally", _COLUMNS, rows, {"at": same["created_at"]})


def tally_claimed(tx: Transaction, steps: Sequence[ClaimedStep], hostname: str, now: datetime) -> None:
    """Steps of a batch began to run."""
    if tx.dialect != SQLITE or not steps:
        return
    sums = Counter([
        (step.was_open, step.action, step.queue, step.group, step.parent_step_id is None, step.is_throttled)
        for step in steps
    ])  # fmt: skip
    rows = [
        ("Pending" if was_open else "Dispatched", "Running", *of, not is_root, throttled, number, None)
        for (was_open, *of, is_root, throttled), number in sums.items()
    ]
    tx.insert("steps_tally", _COLUMNS, rows, {"at": tx.timestamp(now), "hostname": hostname})
    if len(steps) <= SAMPLE or random.random() < WAITS_OF:
        sample = steps[:: len(steps) // SAMPLE + 1]
        counters.tally_waits(tx, ids=[step.id for step in sample], now=now)


def tally_finished(tx: Transaction, runs: Sequence[Success], states: Mapping[int, State], now: datetime) -> None:
    """Own code of steps of a batch is done; `states` has the new states of those whose lease was still held."""
    if tx.dialect != SQLITE or not states:
        return
    steps = [run.claim.step for run in runs]
    if not all(step.id for step in steps):  # the answer to the claim was lost
        counters.tally_ended(tx, ids=sorted(states))
        return
    sums = Counter([
        (states.get(step.id), step.action, step.queue, step.hostname, step.parent_step_id is None)
        for step in steps
    ])  # fmt: skip
    times: dict[str, list[str]] = {}
    for run in runs[:: len(runs) // SAMPLE + 1]:
        times.setdefault(run.claim.step.action, []).append(f"{run.duration:.4g}")
    rows = []
    for (state, action, queue, hostname, is_root), number in sums.items():
        if state is not None:
            sample = ",".join(times.pop(action, ())) or None
            rows.append(("Running", state.value, action, queue, None, not is_root, False, number, sample, hostname))
    tx.insert("steps_tally", (*_COLUMNS, "hostname"), rows, {"at": tx.timestamp(now)})
