"""The invariants, checked on a live database with read-only queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from stepwell.store import Database, Transaction
from stepwell.store.engine import invariants as verbs
from stepwell.store.engine import ticks
from stepwell.store.engine.sweep import FindingRow

CHECKS: Final = {
    "no illegal transition": verbs.invariant_1_legal_transitions,
    "history is a chain": verbs.invariant_1_history_is_a_chain,
    "history and state agree": verbs.invariant_1_history_ends_in_the_state,
    "history is in order of time": verbs.invariant_1_times_do_not_run_backwards,
    "times follow the tree": verbs.invariant_1_times_follow_the_tree,
    "workflows agree with their steps": verbs.invariant_1_workflows_agree_with_their_steps,
    "only claimed steps have a lease": verbs.invariant_2_lease_only_while_claimed,
    "an ended step does not run again": verbs.invariant_3_ended_stays_ended,
    "no step is lost": verbs.invariant_4_no_step_is_lost,
    "no waiting parent is forgotten": verbs.invariant_4_no_parent_is_forgotten,
    "parents, children and blocks agree": verbs.invariant_4_links_agree,
    "a parent never completes before its children": verbs.invariant_5_parent_after_children,
    "concurrency keys stay within their limits": verbs.invariant_7_keys_are_not_exceeded,
    "counters agree with the steps": verbs.invariant_8_counters_agree,
    "trouble agrees with the steps": verbs.invariant_8_trouble_agrees,
    "causes agree with the list of trouble": verbs.invariant_8_causes_agree,
}


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that a step violates; 0 is all steps together."""

    invariant: str
    step_id: int
    finding: str

    def __str__(self) -> str:
        which = f"step {self.step_id} violates" if self.step_id else "the steps violate"
        return f"{which} '{self.invariant}': {self.finding}"


def check_invariants(database: Database) -> list[Violation]:
    """Every violation, with one snapshot per invariant; normally an empty list."""
    return [
        Violation(invariant, row.id, row.finding)
        for invariant, verb in CHECKS.items()
        for row in database.read(partial(_check, verb))
    ]


def _check(verb: Callable[[Transaction], list[FindingRow]], tx: Transaction) -> list[FindingRow]:
    ticks.keep_to_indexes(tx)
    return verb(tx)
