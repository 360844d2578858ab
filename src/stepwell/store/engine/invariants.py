"""The invariants as queries: each returns the steps that violate it, and should return none."""

from __future__ import annotations

from stepwell.store.engine.sweep import FindingRow
from stepwell.store.statement import query
from stepwell.store.transaction import Transaction


@query
def invariant_1_legal_transitions(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_1_history_is_a_chain(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_1_history_ends_in_the_state(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_1_workflows_agree_with_their_steps(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_2_lease_only_while_claimed(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_3_ended_stays_ended(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_4_no_step_is_lost(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_4_no_parent_is_forgotten(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_5_parent_after_children(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_4_links_agree(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_1_times_do_not_run_backwards(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_1_times_follow_the_tree(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_7_keys_are_not_exceeded(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_8_counters_agree(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_8_trouble_agrees(tx: Transaction) -> list[FindingRow]: ...


@query
def invariant_8_causes_agree(tx: Transaction) -> list[FindingRow]: ...
