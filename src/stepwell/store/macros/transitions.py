"""What a statement that changes the state of steps sets, and what it returns."""

from __future__ import annotations

from typing import Final

from stepwell.model.states import TRANSITIONS, Mover
from stepwell.store.macros.macro import POSTGRES, SQLITE, Macros, split

# The time of a transition must not be before that of one that led to it, whichever process wrote that one. On SQLite
# there is one writer at a time, so no time is before the last one in the history: also if the clock was set back. On
# PostgreSQL the clock of the server decides, when the row is written (unless a clock was injected).
_NOT_BEFORE_THE_LAST: Final = (
    # The condition makes it a seek, which no planner can turn into a scan.
    "coalesce((SELECT t.at FROM step_transitions t WHERE t.id <= 9223372036854775807 ORDER BY t.id DESC LIMIT 1), :now)"
)
_TIME_OF_SERVER: Final = (
    # A subquery: asked once in a statement, not once for each row.
    "CASE (SELECT current_setting('stepwell.clock', true)) WHEN 'injected' THEN CAST(:now AS timestamptz) "
    "ELSE clock_timestamp() END"
)


def _to_sqlite(state: str) -> str:
    """A transition sets the new state, the actor, the time and the previous state (which the triggers read)."""
    return f"state = {state}, actor = :actor, updated_at = max(:now, {_NOT_BEFORE_THE_LAST}), changed_from = state"


def _to_postgres(state: str) -> str:
    return f"state = {state}, actor = :actor, updated_at = {_TIME_OF_SERVER}, changed_from = state"


def _end_after_children_sqlite(state: str) -> str:
    return f"{_to_sqlite(state)}, completed_at = max(:now, {_NOT_BEFORE_THE_LAST})"


def _end_after_children_postgres(state: str) -> str:
    """The end of a parent is not before that of any child, whatever clock they were ended by."""
    children = "FROM steps c WHERE c.block_uuid = steps.child_block_uuid AND c.block_uuid <> c.uuid"
    return (
        f"state = {state}, actor = :actor, changed_from = state,\n"
        f"    updated_at = greatest({_TIME_OF_SERVER}, (SELECT max(c.updated_at) {children})),\n"
        f"    completed_at = greatest(:now, (SELECT max(c.completed_at) {children}))"
    )


def _batch_to(state: str) -> str:
    """The same in a SQLite statement that runs the effects itself, once for all its rows."""
    return (
        f"batch = :batch, state = {state}, actor = :actor, "
        f"updated_at = max(updated_at, :now, {_NOT_BEFORE_THE_LAST}), changed_from = state"
    )


def _legal(arguments: str) -> str:
    """Whether the transition table allows `origin, target, actor`."""
    origin, target, actor = split(arguments)
    allowed: dict[Mover, list[str]] = {mover: [] for mover in Mover}
    for (from_state, to_state), mover in TRANSITIONS.items():
        allowed[mover].append(f"'{from_state} to {to_state}'")
    pair = f"({origin}) || ' to ' || {target}"
    return (
        f"({pair} IN ({', '.join(allowed[Mover.ANYONE])})\n"
        f"     OR {pair} IN ({', '.join(allowed[Mover.OPERATOR])})\n"
        f"        AND substr(coalesce({actor}, ''), 1, 9) = 'operator:')"
    )


MACROS: Final[Macros] = {
    "legal": _legal,
    # The columns that a transition returns: `store.changes.Change`.
    "changes": "RETURNING @changed_columns",
    "changed_columns": (
        "id AS step_id, workflow_id, action, changed_from AS from_state, state AS to_state, reason, actor,\n"
        "    updated_at AS at, attempts AS attempt, last_error AS error, duration, belongs_to"
    ),
}
MACROS_OF: Final[dict[str, Macros]] = {
    SQLITE: {"to": _to_sqlite, "end_after_children": _end_after_children_sqlite, "batch_to": _batch_to},
    POSTGRES: {"to": _to_postgres, "end_after_children": _end_after_children_postgres},
}
