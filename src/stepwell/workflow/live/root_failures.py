"""Why a step could not run: the failures that it goes back to, at any distance."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from stepwell.model.reasons import CHILDREN_FAILED
from stepwell.model.states import State
from stepwell.store import Transaction
from stepwell.store.engine import inputs
from stepwell.store.engine.inputs import Failure

SHOWN: Final = 3  # failures per step


def root_failures(tx: Transaction, ids: Collection[int]) -> dict[int, str]:
    """For each of these NotRunnable steps, the failed or cancelled steps because of which it cannot run."""
    return {id: text for id in ids if (text := _described(_roots(tx, id)))}


def _roots(tx: Transaction, step_id: int) -> list[Failure]:
    """Through dependencies that could not run either, and through parents that failed because of their children."""
    seen, new, roots = {step_id}, [step_id], dict[int, Failure]()
    while new:
        found = inputs.failures_behind(tx, ids=new)
        roots |= {each.id: each for each in found if _is_root(each)}
        new = [each.id for each in found if not _is_root(each) and each.id not in seen]
        seen.update(new)
    return [roots[id] for id in sorted(roots)]


def _is_root(failure: Failure) -> bool:
    return failure.state is not State.NOT_RUNNABLE and failure.reason != CHILDREN_FAILED


def _described(roots: list[Failure]) -> str:
    named = [
        f"step {each.id} ({each.label or each.action}) is {each.state}: {each.error_message or each.reason}"
        for each in roots[:SHOWN]
    ]
    more = [f"and {len(roots) - SHOWN} more"] if len(roots) > SHOWN else []
    return "; ".join(named + more)
