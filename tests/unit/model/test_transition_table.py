"""The transition table against the specification, and the SQL against the transition table."""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import stepwell
from stepwell.model import reasons
from stepwell.model.states import CONCLUDED, FAILED, TERMINAL, TRANSITIONS, UNFINISHED, State, is_legal
from stepwell.store.definitions import definitions
from stepwell.store.statement import statements

# Copied by hand: what leaves a state, and what only an operator may do.
SPECIFIED = {
    "Pending": ("Dispatched Skipped Cancelled Failed NotRunnable", "Completed"),
    "Dispatched": ("Running Pending Skipped Cancelled Failed", ""),
    "Running": ("Completed Failed Stopped Skipped Cancelled Pending", ""),
    "Completed": ("", ""),
    "Skipped": ("", ""),
    "Failed": ("", "Pending Running Completed Skipped"),
    "Stopped": ("", "Pending Running Completed Skipped"),
    "Cancelled": ("", "Pending Running Completed Skipped"),
    "NotRunnable": ("Pending Skipped Cancelled", "Completed"),
}


@pytest.mark.parametrize(("origin", "target"), list(itertools.product(State, State)), ids=str)
def test_the_transition_table_is_that_of_the_specification(origin: State, target: State) -> None:
    by_anyone, by_operator = (words.split() for words in SPECIFIED[origin.value])
    assert is_legal(origin, target) == (target.value in by_anyone)
    assert is_legal(origin, target, operator=True) == (target.value in [*by_anyone, *by_operator])


def test_there_are_nine_states_and_every_one_is_in_the_specification() -> None:
    assert [state.value for state in State] == list(SPECIFIED)


def test_unfinished_and_terminal_divide_the_states() -> None:
    assert {state.value for state in UNFINISHED} == {"Pending", "Dispatched", "Running"}
    assert frozenset(State) - UNFINISHED == TERMINAL
    assert {state.value for state in CONCLUDED} == {"Completed", "Skipped"}
    assert {state.value for state in FAILED} == {"Failed", "Stopped"}
    assert all(state.is_terminal == (state in TERMINAL) for state in State)


def test_no_transition_leaves_a_concluded_state() -> None:
    assert not any(origin in CONCLUDED for origin, _ in TRANSITIONS)


# The SQL files ------------------------------------------------------------------------------------------------

STORE = Path(stepwell.__file__).parent / "store"
SUBJECTS = sorted({path.stem for path in (STORE / "sql").rglob("*.sql")})
_GUARD = re.compile(r"(?<![\w.])state\s+(=\s+'\w+'|(?:NOT\s+)?IN\s+\([^)]*\))")
_COLUMNS_OF_A_CASE = (
    "own_code_done_at", "has_children", "compute_done_at", "child_block_uuid", "not_completed", "rescues", "begun",
    "retries", "max_retries", "belongs_to",
)  # fmt: skip


def _statements() -> Iterator[tuple[str, str]]:
    """What each database runs, macros written out."""
    for dialect in ("sqlite", "postgres"):
        for subject in SUBJECTS:
            for name, sql in statements(subject, dialect).items():
                text = re.sub(r"%\((\w+)\)s", r":\1", re.sub(r"--.*", "", sql))
                yield f"{dialect}/{subject}:{name}", text


def _state_changes() -> list[tuple[str, str]]:
    """Every statement that sets `steps.state`, with the place where it stands."""
    return [(where, body) for where, body in _statements() if re.search(r"UPDATE steps SET\s", body)]


def _set_clause_and_guard(body: str) -> tuple[str, str]:
    """What an UPDATE of steps assigns, and its WHERE, each as text (subqueries included)."""
    update = body[re.search(r"UPDATE steps SET\s", body).end() :]  # type: ignore[union-attr]
    depth = 0
    for position, character in enumerate(update):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0 and update[position:].startswith("WHERE "):
            return update[:position], update[position:]
    raise AssertionError(f"an UPDATE of steps without a WHERE: {body}")


def _assigned_expression(set_clause: str) -> str | None:
    """The right side of `state = …`, up to the comma that ends it."""
    found = re.search(r"(?<![\w.])(?<!changed_from = )state = ", set_clause)
    if found is None:
        return None
    depth, cases, rest = 0, 0, set_clause[found.end() :]
    for token in re.finditer(r"\bCASE\b|\bEND\b|[(),]|\Z", rest):
        match token.group():
            case "CASE":
                cases += 1
            case "END":
                cases -= 1
            case "(":
                depth += 1
            case ")":
                depth -= 1
            case _ if depth == 0 and cases == 0:
                return rest[: token.start()].strip()
    return rest


def _possible_targets(expression: str, origin: str) -> set[str]:
    """What the expression makes of a row in that state, whatever the other columns hold: SQLite says."""
    targets = set()
    expression = expression.replace(":limit", "1").replace(":began", "0").replace(":cut", "1")
    with sqlite3.connect(":memory:") as connection:
        for values in itertools.product((None, 1), repeat=len(_COLUMNS_OF_A_CASE)):
            columns = ", ".join(f"? AS {name}" for name in _COLUMNS_OF_A_CASE)
            row = connection.execute(f"SELECT {expression} FROM (SELECT ? AS state, {columns})", (origin, *values))
            targets.add(row.fetchone()[0])
    connection.close()
    return targets


def _guarded_origins(guard: str) -> set[str]:
    """The states that the WHERE lets through, by its conditions on the row's own (unqualified) state."""
    origins = {state.value for state in State}
    for condition in _GUARD.findall(guard):
        named = set(re.findall(r"'(\w+)'", condition))
        origins &= origins - named if condition.startswith("NOT") else named
    return origins


def _moves() -> list[tuple[str, str, str]]:
    """Every (where, from, to) that the SQL files can bring about."""
    moves = []
    for where, body in _state_changes():
        set_clause, guard = _set_clause_and_guard(body)
        expression = _assigned_expression(set_clause)
        if expression is None:
            continue
        for origin in sorted(_guarded_origins(guard)):
            moves += [(where, origin, target) for target in sorted(_possible_targets(expression, origin))]
    return moves


def test_the_sql_files_are_found_and_understood() -> None:
    moved_by = {where.split(":")[1] for where, _, _ in _moves()}
    assert {"claim", "finish", "dispatch", "fail_parents", "complete_parents", "revive", "cancel_by_hand"} <= moved_by
    assert ("sqlite/claims:claim", "Dispatched", "Running") in _moves()
    assert ("postgres/runs:finish", "Running", "Completed") in _moves()


# Two legal transitions in one statement, Pending to Dispatched to Running: the history has both (test_claims.py).
_BY_WAY_OF_DISPATCHED = [(f"{dialect}/claims:claim", "Pending", "Running") for dialect in ("sqlite", "postgres")]


def test_no_sql_sets_a_state_that_the_transition_table_forbids() -> None:
    forbidden = [
        f"{where}: {origin} to {target}"
        for where, origin, target in _moves()
        if origin != target
        and (where, origin, target) not in _BY_WAY_OF_DISPATCHED
        and not is_legal(State(origin), State(target), operator=where.split(":")[0].endswith("/operator"))
    ]
    assert forbidden == []


def test_every_change_of_state_in_sql_names_the_state_it_expects() -> None:
    unguarded = []
    for where, body in _state_changes():
        set_clause, guard = _set_clause_and_guard(body)
        if _assigned_expression(set_clause) is not None and not _GUARD.search(guard):
            unguarded.append(where)
    assert unguarded == []


def test_every_change_of_state_in_sql_says_who_why_when_and_from_where() -> None:
    """`changed_from` is what PostgreSQL's history is written from; actor, reason and time go into it."""
    silent = []
    for where, body in _state_changes():
        set_clause, _ = _set_clause_and_guard(body)
        if _assigned_expression(set_clause) is not None:
            expected = ("changed_from = state", "actor = :actor", "reason = ", "updated_at = ")
            silent += [f"{where}: {part}" for part in expected if part not in set_clause]
    assert silent == []


def test_every_transition_of_the_engine_is_made_somewhere_or_by_an_operator() -> None:
    """The two that nothing makes yet are the reaper's: a Dispatched step that nobody took."""
    made = {(origin, target) for _, origin, target in _moves()}
    missing = {(str(o), str(t)) for o, t in TRANSITIONS} - made
    assert missing <= {("Dispatched", "Pending")}


def named_reasons() -> set[str]:
    return {value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)}


def test_every_reason_of_the_engine_is_kept_from_jobs() -> None:
    assert named_reasons() == reasons.ENGINE_REASONS


def test_the_reasons_in_sql_are_those_of_the_model() -> None:
    named: set[str] = set()
    for text in (*(sql for _, sql in _statements()), definitions("sqlite"), definitions("postgres")):
        for found in re.finditer(
            r"reason(?:, '')?\)?\s*(?:=|<>|(?:NOT\s+)?IN)\s*(\([^)]*\)|'\w+'|CASE\b.*?\bEND)", text, re.DOTALL
        ):
            expression = re.sub(r"\bWHEN\b.*?\bTHEN\b", "", found.group(1), flags=re.DOTALL)
            named |= set(re.findall(r"'(\w+)'", expression))
    assert {"dormant", "parent_failed", "children_concluded"} <= named, "the pattern no longer finds them"
    assert named - named_reasons() == set()


def test_what_ended_with_its_parent_has_a_reason_that_the_triggers_know() -> None:
    listed = re.compile(r"NOT IN \(('parent_\w+'(?:,\s*'parent_\w+')*)\)")
    for dialect in ("sqlite", "postgres"):
        found = listed.findall(definitions(dialect))
        assert found, dialect
        assert all(set(re.findall(r"\w+", item)) == set(reasons.ENDED_WITH_PARENT) for item in found), dialect
