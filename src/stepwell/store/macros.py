"""The macros of the `.sql` files: syntax that differs between the databases, and text that many statements share.

A macro starts with `@`. The database runs exactly the text of the file with its macros expanded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from stepwell.model.states import TRANSITIONS, Mover

SQLITE: Final = "sqlite"
POSTGRES: Final = "postgres"

# The statistics of tables that fill and empty all day are always wrong, and each statement has one good plan for all
# parameters: so the planner is restricted to index scans until the end of the transaction.
_KEEP_TO_INDEXES: Final = """, set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true)"""

# Macros without arguments, per database.
_PLAIN_MACROS: Final[dict[str, dict[str, str]]] = {
    # The columns of an agenda entry; `@agenda_entry` supplies the values of all but the first two.
    "agenda": dict.fromkeys(
        (SQLITE, POSTGRES),
        'steps_agenda (step_id, status, "group", queue, action, rank, due_at, concurrency_key, key_blocked)',
    ),
    # The columns of a block entry; `@unconcluded_entry` supplies the values.
    "unconcluded": dict.fromkeys(
        (SQLITE, POSTGRES), 'steps_unconcluded (step_id, block_uuid, type, "index", ended, workflow_id)'
    ),
    # The columns that a transition returns: `store.changes.Change`.
    "changes": dict.fromkeys(
        (SQLITE, POSTGRES),
        "RETURNING id AS step_id, workflow_id, action, changed_from AS from_state, state AS to_state, reason, actor,\n"
        "    updated_at AS at, attempts AS attempt, last_error AS error, duration, declared",
    ),
    # Only the run that holds the lease may write.
    "holder": dict.fromkeys(
        (SQLITE, POSTGRES),
        "id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL",
    ),
    "release": dict.fromkeys((SQLITE, POSTGRES), "lease_worker = NULL, lease_deadline = NULL"),
    # Completed, or Running until the children have concluded.
    "own_code_done": dict.fromkeys(
        (SQLITE, POSTGRES),
        "reason = CASE WHEN has_children THEN 'waiting_for_children' END,\n"
        "    completed_at = CASE WHEN has_children THEN completed_at ELSE :now END,\n"
        "    compute_done_at = coalesce(compute_done_at, :now), own_code_done_at = :now, stage = NULL,\n"
        "    lease_worker = NULL, lease_deadline = NULL",
    ),
    # What a step must be to be completed by hand, beside its state: a gate is open (before, an answer would be too
    # early), and the children of a step that never ran have not run either: below a Completed parent they never would.
    "completable": dict.fromkeys(
        (SQLITE, POSTGRES),
        "(kind <> 'gate' OR steps.state NOT IN ('Pending', 'NotRunnable')\n"
        "     OR EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = steps.id AND a.status = 'gate'))\n"
        "  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u\n"
        "                  WHERE u.block_uuid = steps.child_block_uuid\n"
        "                    AND (NOT u.ended OR steps.state = 'NotRunnable' AND u.type = 'default'))",
    ),
    "keep_to_indexes": {SQLITE: "", POSTGRES: _KEEP_TO_INDEXES},
}


def _to(state: str) -> str:
    """A transition sets the new state, the actor, the time and the previous state (which the triggers read)."""
    return f"state = {state}, actor = :actor, updated_at = :now, changed_from = state"


def _batch_to(state: str) -> str:
    """The same in a SQLite statement that runs the effects itself, once for all its rows."""
    return f"batch = :batch, state = {state}, actor = :actor, updated_at = max(updated_at, :now), changed_from = state"


def _ready(row: str) -> str:
    """A condition on a row of `step_readiness`: no other step and no paused workflow is in the way."""
    return f"{row}.parent_ready AND {row}.order_met AND {row}.dependencies_met AND {row}.workflow_runs"


def _eligible(row: str) -> str:
    return f"{_ready(row)} AND {row}.retries_left"


def _opened(row: str) -> str:
    """The status on the agenda of a step that is ready and due: about some, a tick decides first."""
    return (
        f"CASE WHEN {row}.undecided = 'always' OR {row}.kind = 'gate' OR {row}.undecided = 'if_skipped' AND EXISTS (\n"
        f"    SELECT 1 FROM step_dependencies e JOIN steps d ON d.id = e.depends_on_id\n"
        f"    WHERE e.step_id = {row}.id AND d.state = 'Skipped') THEN 'undecided' ELSE 'open' END"
    )


def _agenda_entry(row: str) -> str:
    return (
        f"{row}.\"group\", {row}.queue, {row}.action, CASE {row}.priority WHEN 'high' THEN 0 ELSE 1 END, "
        f"{row}.dispatch_after, {row}.concurrency_key, {row}.concurrency_key IS NOT NULL"
    )


def _legal(arguments: str) -> str:
    """Whether the transition table allows `origin, target, actor`."""
    origin, target, actor = _split(arguments)
    allowed: dict[Mover, list[str]] = {mover: [] for mover in Mover}
    for (from_state, to_state), mover in TRANSITIONS.items():
        allowed[mover].append(f"'{from_state} to {to_state}'")
    pair = f"({origin}) || ' to ' || {target}"
    return (
        f"({pair} IN ({', '.join(allowed[Mover.ANYONE])})\n"
        f"     OR {pair} IN ({', '.join(allowed[Mover.OPERATOR])})\n"
        f"        AND substr(coalesce({actor}, ''), 1, 9) = 'operator:')"
    )


def _unconcluded_entry(row: str) -> str:
    return (
        f'{row}.id, {row}.block_uuid, {row}.type, {row}."index", '
        f"{row}.state NOT IN ('Pending', 'Dispatched', 'Running') AND {row}.lease_worker IS NULL, "
        f"CASE WHEN {row}.declared THEN {row}.workflow_id END"
    )


_PARAMETER: Final = re.compile(r"(:\w+) (\w+)$")


def _in_sqlite(what: str) -> str:
    if found := _PARAMETER.match(what):
        return f"IN (SELECT value FROM json_each({found[1]}))"
    return f"IN ({what})"


def _in_postgres(what: str) -> str:
    """An array is computed first and then looked up; for IN, the planner may scan all steps to find a few."""
    if found := _PARAMETER.match(what):
        return f"= ANY(CAST({found[1]} AS {found[2]}[]))"
    return f"= ANY(ARRAY({what}))"


def _parameter(what: str) -> tuple[str, str]:
    found = _PARAMETER.match(what)
    assert found is not None, f"expected `:parameter type`, not {what!r}"
    return found[1], found[2]


_SHARED: Final[dict[str, Callable[[str], str]]] = {
    "to": _to, "legal": _legal, "ready": _ready, "eligible": _eligible, "opened": _opened,
    "agenda_entry": _agenda_entry, "unconcluded_entry": _unconcluded_entry,
}  # fmt: skip
_OF_SQLITE: Final[dict[str, Callable[[str], str]]] = {
    "sqlite": lambda what: what,
    "postgres": lambda what: "",
    "in": _in_sqlite,
    "not_in": lambda what: f"NOT IN (SELECT value FROM json_each({_parameter(what)[0]}))",
    "array": lambda what: _parameter(what)[0],
    "time": lambda what: what,
    "batch_to": _batch_to,
}
_OF_POSTGRES: Final[dict[str, Callable[[str], str]]] = {
    "sqlite": lambda what: "",
    "postgres": lambda what: what,
    "in": _in_postgres,
    "not_in": lambda what: "<> ALL(CAST({} AS {}[]))".format(*_parameter(what)),
    "array": lambda what: "CAST({} AS {}[])".format(*_parameter(what)),
    "time": lambda what: f"CAST({what} AS timestamptz)",  # of a parameter whose type PostgreSQL cannot infer
    # The number of the lock that a tick holds while it dispatches to a queue.
    "queue_lock": lambda what: f"hashtextextended('dispatch in ' || current_schema() || ' to ' || {what}, 0)",
}

_MACRO: Final = re.compile(r"@(\w+)(\()?")


def expand(text: str, dialect: str, more: Mapping[str, Callable[[str], str]] | None = None) -> str:
    """The text with its macros expanded for one database; `more` are macros of the caller.

    >>> expand("DELETE FROM steps_marks WHERE id @in(:ids bigint)", "postgres")
    'DELETE FROM steps_marks WHERE id = ANY(CAST(:ids AS bigint[]))'
    >>> expand("DELETE FROM steps_marks WHERE id @in(SELECT 1) @postgres(FOR UPDATE)", "sqlite")
    'DELETE FROM steps_marks WHERE id IN (SELECT 1) '
    """
    calls = {**_SHARED, **(_OF_SQLITE if dialect == SQLITE else _OF_POSTGRES), **(more or {})}
    done, rest = "", text
    while found := _MACRO.search(rest):
        done += rest[: found.start()]
        if found[2] is None:
            if found[1] not in _PLAIN_MACROS:
                raise ValueError(f"unknown macro @{found[1]}")
            rest = _PLAIN_MACROS[found[1]][dialect] + rest[found.end() :]
            continue
        if found[1] not in calls:
            raise ValueError(f"unknown macro @{found[1]}(…)")
        end = _closing(rest, found.end())
        rest = calls[found[1]](rest[found.end() : end]) + rest[end + 1 :]
    return done + rest


def _closing(text: str, start: int) -> int:
    """The position of the bracket that closes the one before `start`."""
    depth = 1
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position
    raise ValueError(f"unclosed macro: {text[start - 20 : start + 40]!r}")


def _split(arguments: str) -> list[str]:
    """The arguments of a macro, split at the commas outside brackets and quotes."""
    parts, depth, quoted = [""], 0, False
    for character in arguments:
        quoted ^= character == "'"
        depth += 0 if quoted else {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
