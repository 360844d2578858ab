"""The promises of the specification, checked on a live database with read-only questions."""

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
    "history does not go back in time": verbs.invariant_1_times_do_not_run_backwards,
    "a lease only while claimed": verbs.invariant_2_lease_only_while_claimed,
    "what ended does not run again": verbs.invariant_3_ended_stays_ended,
    "no step is lost": verbs.invariant_4_no_step_is_lost,
    "links agree": verbs.invariant_4_links_agree,
    "a parent never completes before its children": verbs.invariant_5_parent_after_children,
    "no more steps of a key run than may": verbs.invariant_7_keys_are_not_exceeded,
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that a step breaks."""

    invariant: str
    step_id: int
    finding: str

    def __str__(self) -> str:
        return f"step {self.step_id} breaks «{self.invariant}»: {self.finding}"


def check_invariants(database: Database) -> list[Violation]:
    """Every violation, in one snapshot per promise; an empty list is the expected answer."""
    return [
        Violation(invariant, row.id, row.finding)
        for invariant, verb in CHECKS.items()
        for row in database.read(partial(_ask, verb))
    ]


def _ask(verb: Callable[[Transaction], list[FindingRow]], tx: Transaction) -> list[FindingRow]:
    ticks.keep_to_indexes(tx)
    return verb(tx)
