"""The promises of the specification, checked on a live database with read-only questions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from stepwell.store import Database, Row, Transaction

CHECKS: Final = {
    "no illegal transition": "invariant_1_legal_transitions",
    "history is a chain": "invariant_1_history_is_a_chain",
    "history and state agree": "invariant_1_history_ends_in_the_state",
    "history does not go back in time": "invariant_1_times_do_not_run_backwards",
    "a lease only while claimed": "invariant_2_lease_only_while_claimed",
    "what ended does not run again": "invariant_3_ended_stays_ended",
    "no step is lost": "invariant_4_no_step_is_lost",
    "links agree": "invariant_4_links_agree",
    "a parent never completes before its children": "invariant_5_parent_after_children",
    "no more steps of a key run than may": "invariant_7_keys_are_not_exceeded",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that a step breaks."""

    promise: str
    step_id: int
    finding: str

    def __str__(self) -> str:
        return f"step {self.step_id} breaks «{self.promise}»: {self.finding}"


def check_invariants(database: Database) -> list[Violation]:
    """Every violation, in one snapshot per promise; an empty list is the expected answer."""
    return [
        Violation(promise, row["id"], row["finding"])
        for promise, statement in CHECKS.items()
        for row in database.read(partial(_ask, statement))
    ]


def _ask(statement: str, tx: Transaction) -> list[Row]:
    tx.rows("keep_to_indexes")
    return tx.rows(statement)
