"""The macros of the `.sql` files: syntax that differs between the databases, and text that many statements share.

A macro starts with `@`. The database runs exactly the text of the file with its macros expanded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from stepwell.model.reasons import NOT_COMPLETED
from stepwell.model.states import TRANSITIONS, Mover
from stepwell.model.task_states import TASK_STATES
from stepwell.store import values_of_sql
from stepwell.store.execution import execution_of

SQLITE: Final = "sqlite"
POSTGRES: Final = "postgres"

# For PostgreSQL's planner. The statistics of tables that fill and empty all day are always wrong, and each statement
# has one good plan for all parameters: by index, made once. Compiling a plan (`jit`) can take longer than running it.
KEEP_TO_INDEXES: Final = {
    "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}  # fmt: skip
_KEEP_TO_INDEXES: Final = "".join(f", set_config('{name}', '{to}', true)" for name, to in KEEP_TO_INDEXES.items())

# Macros without arguments, per database.
_PLAIN_MACROS: Final[dict[str, dict[str, str]]] = {
    # The columns of an agenda entry; `@agenda_entry` supplies the values of all but the first two.
    "agenda": dict.fromkeys(
        (SQLITE, POSTGRES),
        'steps_agenda (step_id, status, "group", queue, action, rank, due_at, since, concurrency_key, key_blocked)',
    ),
    # The columns of a block entry; `@unconcluded_entry` supplies the values.
    "unconcluded": dict.fromkeys(
        (SQLITE, POSTGRES), 'steps_unconcluded (step_id, block_uuid, type, "index", ended, workflow_id)'
    ),
    # The columns that a transition returns: `store.changes.Change`.
    "changes": dict.fromkeys((SQLITE, POSTGRES), "RETURNING @changed_columns"),
    "changed_columns": dict.fromkeys(
        (SQLITE, POSTGRES),
        "id AS step_id, workflow_id, action, changed_from AS from_state, state AS to_state, reason, actor,\n"
        "    updated_at AS at, attempts AS attempt, last_error AS error, duration, belongs_to",
    ),
    # Only the run that holds the lease may write.
    "holder": dict.fromkeys(
        (SQLITE, POSTGRES),
        "id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL",
    ),
    "release": dict.fromkeys((SQLITE, POSTGRES), "lease_worker = NULL, lease_deadline = NULL"),
    # The run has ended, and its process is alive: deaths are counted in a row.
    "survived": dict.fromkeys((SQLITE, POSTGRES), "rescues = 0, begun = true, is_throttled = false"),
    # Whether the run has begun: the caller or the row knows.
    "has_begun": dict.fromkeys((SQLITE, POSTGRES), "(begun OR CAST(:began AS boolean))"),
    # A cut at the timeout, of the execution of a cron job.
    "spends_attempt": dict.fromkeys(
        (SQLITE, POSTGRES), "(CAST(:cut AS boolean) AND belongs_to IS NOT NULL AND belongs_to = 'schedule')"
    ),
    # Completed, or Running until the children have concluded.
    "own_code_done": dict.fromkeys(
        (SQLITE, POSTGRES),
        "reason = CASE WHEN has_children THEN 'waiting_for_children' END,\n"
        "    completed_at = CASE WHEN has_children THEN completed_at ELSE :now END,\n"
        "    compute_done_at = coalesce(compute_done_at, :now), own_code_done_at = :now, stage = NULL,\n"
        "    rescues = 0, begun = true, is_throttled = false,\n"
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
    # The lanes of a worker that are not at a limit, once for each rank.
    "lanes": dict.fromkeys(
        (SQLITE, POSTGRES),
        'lanes (queue, action, "group", place, rank) AS (\n'
        '    SELECT l.queue, l.action, l."group", l.place, r.rank\n'
        "    FROM steps_worker_lanes l CROSS JOIN (SELECT 0 AS rank UNION ALL SELECT 1) AS r\n"
        "    WHERE l.worker_id = :worker\n"
        "      AND l.queue @not_in(:full_queues text) AND l.action @not_in(:full_actions text)\n"
        ")",
    ),
    # The first of the candidates for a claim: high priority before the rest, but no more than `high` of it.
    "first_candidates": {
        # Only the high ones are numbered: a window over all candidates costs a third of the statement.
        SQLITE: "numbered AS (\n"
        "    SELECT step_id, queue, action, rank, queue_place,\n"
        "           row_number() OVER (ORDER BY queue_place, step_id) AS place\n"
        "    FROM candidates WHERE rank = 0\n"
        "    UNION ALL\n"
        "    SELECT step_id, queue, action, rank, queue_place, 0 FROM candidates WHERE rank = 1\n"
        ")\n"
        "SELECT json_group_array(json_array(step_id, queue, action, tier, EXISTS (SELECT 1 FROM steps_limits)))\n"
        "FROM (SELECT step_id, queue, action, CASE WHEN rank = 0 AND place > :high THEN 2 ELSE rank END AS tier\n"
        "      FROM numbered ORDER BY tier, queue_place, step_id LIMIT :most)",
        POSTGRES: "numbered AS (\n"
        "    SELECT step_id, queue, action, rank, queue_place,\n"
        "           row_number() OVER (PARTITION BY rank ORDER BY queue_place, step_id) AS place\n"
        "    FROM candidates\n"
        ")\n"
        "SELECT step_id, queue, action, CASE WHEN rank = 0 AND place > :high THEN 2 ELSE rank END AS tier,\n"
        "       EXISTS (SELECT 1 FROM steps_limits) AS has_limits\n"
        "FROM numbered ORDER BY tier, queue_place, step_id LIMIT :most",
    },
    "keep_to_indexes": {SQLITE: "", POSTGRES: _KEEP_TO_INDEXES},
    "database_time": {SQLITE: "strftime('%Y-%m-%d %H:%M:%f000', 'now')", POSTGRES: "now()"},
}


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


def _to_after_children_postgres(state: str) -> str:
    """The end of a parent is not before that of any child, whatever clock they were ended by."""
    children = (
        "SELECT max(c.updated_at) FROM steps c WHERE c.block_uuid = steps.child_block_uuid AND c.block_uuid <> c.uuid"
    )
    return (
        f"state = {state}, actor = :actor, updated_at = greatest({_TIME_OF_SERVER}, ({children})), changed_from = state"
    )


def _batch_to(state: str) -> str:
    """The same in a SQLite statement that runs the effects itself, once for all its rows."""
    return (
        f"batch = :batch, state = {state}, actor = :actor, "
        f"updated_at = max(updated_at, :now, {_NOT_BEFORE_THE_LAST}), changed_from = state"
    )


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


def _outdated(rows: str) -> str:
    """Whether the state of a declared workflow is not that of its steps: `workflow, outcome`.

    A workflow is pending until a step leaves Pending or a gate opens; its steps alone say in_progress.
    """
    workflow, outcome = _split(rows)
    begun = (
        f"EXISTS (SELECT 1 FROM steps b WHERE b.workflow_id = {workflow}.id AND b.workflow_id <> b.uuid\n"
        f"        AND b.state IN ('Dispatched', 'Running'))"
    )
    return (
        f"CASE WHEN {workflow}.state = 'pending' THEN {outcome}.outcome <> 'in_progress' OR {begun}\n"
        f"     ELSE {outcome}.outcome <> {workflow}.state END"
    )


def _returned(row: str) -> str:
    """The status on the agenda of a step that returns to Pending.

    A task of a main process whose run did not complete it is held until the reschedule beat clears it.
    """
    return (
        f"CASE WHEN {row}.belongs_to = 'process' AND {row}.reason = 'not_completed' THEN 'held' "
        f"WHEN {row}.placed THEN 'unchecked' ELSE 'new' END"
    )


def _lease_is_dead(arguments: str) -> str:
    """Whether the lease of a step has ended, by `step, worker, time`; the worker is NULL if it has no row any more."""
    step, worker, now = _split(arguments)
    return f"({worker}.id IS NULL OR {worker}.alive_until <= {now} OR {step}.lease_deadline <= {now})"


def _task_state(arguments: str) -> str:
    """The state of a task of a main process, by its `step, worker, time`: `TASK_STATES` in SQL.

    What was ended from outside while it ran is running until its process has ended: another run must not begin.
    A task whose step is no longer there is completed.
    """
    step = _split(arguments)[0]
    dead = _lease_is_dead(arguments)
    by_state = "\n".join(
        f"     WHEN {step}.state = '{state}' THEN '{task_state}'" for state, task_state in TASK_STATES.items()
    )
    return (
        f"CASE WHEN {step}.state = 'Running' AND {step}.lease_worker IS NOT NULL AND {dead} THEN 'dead'\n"
        f"     WHEN {step}.lease_worker IS NOT NULL AND NOT {dead} THEN 'running'\n"
        f"     WHEN {step}.state = 'Pending' AND {step}.reason = '{NOT_COMPLETED}' THEN 'not_completed'\n"
        f"{by_state}\n     ELSE 'completed' END"
    )


def _agenda_entry(arguments: str) -> str:
    """The entry of a row; with a time, since when it can be worked on: else since its last change."""
    row, since = (*_split(arguments), None)[:2]
    return (
        f"{row}.\"group\", coalesce({row}.queue, 'default'), {row}.action, "
        f"CASE {row}.priority WHEN 'high' THEN 0 ELSE 1 END, {row}.dispatch_after, "
        f"{since or f'{row}.updated_at'}, {row}.concurrency_key, "
        f"{row}.concurrency_key IS NOT NULL"
    )


def _takes_room(arguments: str) -> str:
    """Whether a Dispatched step of the agenda is for workers that also serve the group; usually all serve all."""
    row, group = _split(arguments)
    return (
        f'({row}."group" = {group} OR NOT EXISTS (SELECT 1 FROM steps_worker_lanes WHERE "group" <> \'\')\n'
        f"    OR EXISTS (SELECT 1 FROM steps_worker_lanes x JOIN steps_worker_lanes y\n"
        f"                   ON y.worker_id = x.worker_id AND y.queue = x.queue\n"
        f'                  AND y."group" IN (\'\', {row}."group")\n'
        f"               WHERE x.queue = {row}.queue AND x.\"group\" IN ('', {group})))"
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


def _counted(arguments: str) -> str:
    """Under which counter a step is counted, by `row, state`: the columns of `steps_totals` without the number.

    The group matters while a step is queued, the host while it runs, throttling while it is Pending. (So the rows of
    the tally are few: a batch of endings has steps of all groups, and usually of one host and action.)
    """
    row, state = _split(arguments)
    return (
        f"{row}.{state} AS state, {row}.action AS action, coalesce({row}.queue, '') AS queue, "
        f"CASE WHEN {row}.{state} IN ('Pending', 'Dispatched') THEN coalesce({row}.\"group\", '') "
        f"ELSE '' END AS \"group\", CASE {row}.{state} WHEN 'Running' THEN coalesce({row}.hostname, '') ELSE '' END "
        f"AS hostname, {row}.child AS child, "
        f"{row}.{state} = 'Pending' AND {row}.is_throttled AS throttled"
    )


def _happened(row: str) -> str:
    """Under what the minutes count a row of the tally; NULL: not at all, like being dispatched."""
    return (
        f"CASE WHEN {row}.from_state = {row}.to_state OR {row}.to_state IN ('Dispatched') THEN NULL\n"
        f"     WHEN {row}.to_state = 'Pending' AND {row}.from_state IS NULL THEN 'created'\n"
        f"     WHEN {row}.to_state = 'Pending' THEN 'returned'\n"
        f"     WHEN {row}.to_state = 'Running' AND {row}.from_state NOT IN ('Pending', 'Dispatched') THEN 'returned'\n"
        f"     ELSE {row}.to_state END"
    )


def _trouble(row: str) -> str:
    """The row of `steps_trouble` for a step. What a cascade ended has its cause looked for later."""
    return (
        f"{row}.id, {row}.state, {row}.action, {row}.reason, "
        f"CASE WHEN {row}.fingerprint IS NOT NULL AND {row}.state = 'Failed' THEN {row}.fingerprint "
        f"ELSE {row}.action || ':' || coalesce({row}.reason, lower({row}.state)) END, "
        f"CASE WHEN {row}.reason IN ('parent_skipped', 'parent_cancelled', 'parent_failed', 'parent_not_runnable', "
        f"'predecessor_failed', 'children_failed') THEN 0 END, {row}.updated_at"
    )


def _unconcluded_entry(row: str) -> str:
    return (
        f'{row}.id, {row}.block_uuid, {row}.type, {row}."index", '
        f"{row}.state NOT IN ('Pending', 'Dispatched', 'Running') AND {row}.lease_worker IS NULL, "
        f"CASE WHEN {row}.belongs_to = 'workflow' THEN {row}.workflow_id END"
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


def _rows_sqlite(arguments: str) -> str:
    """The rows of a parameter with a JSON array of arrays: `:rows, id bigint, name text`."""
    parameter, *columns = _split(arguments)
    places = ", ".join(f"json_extract(value, '$[{at}]') AS {each.split()[0]}" for at, each in enumerate(columns))
    return f"(SELECT {places} FROM json_each({parameter}))"


def _rows_postgres(arguments: str) -> str:
    parameter, *columns = _split(arguments)
    places = ", ".join(
        f"CAST(value ->> {at} AS {kind}) AS {name}" for at, (name, kind) in enumerate(map(str.split, columns))
    )
    return f"(SELECT {places} FROM json_array_elements(CAST({parameter} AS json)))"


def _after_sqlite(arguments: str) -> str:
    column, value = _split(arguments)
    return f"{column} = {value} AND id > :after"


def _after_postgres(arguments: str) -> str:
    """The next rows of a group by id.

    Told that all have one value of the column, the planner may take the order of the primary key, and read the rows of
    all other groups.
    """
    column, value = _split(arguments)
    return f"({column}, id) > ({value}, :after) AND {column} <= {value}"


_SHARED: Final[dict[str, Callable[[str], str]]] = {
    "legal": _legal, "ready": _ready, "eligible": _eligible, "opened": _opened, "outdated": _outdated,
    "agenda_entry": _agenda_entry, "unconcluded_entry": _unconcluded_entry, "takes_room": _takes_room,
    "execution_of": execution_of, "returned": _returned, "counted": _counted, "trouble": _trouble,
    "happened": _happened, "lease_is_dead": _lease_is_dead, "task_state": _task_state,
}  # fmt: skip
_OF_SQLITE: Final[dict[str, Callable[[str], str]]] = {
    "sqlite": lambda what: what,
    "postgres": lambda what: "",
    "in": _in_sqlite,
    "not_in": lambda what: f"NOT IN (SELECT value FROM json_each({_parameter(what)[0]}))",
    "array": lambda what: _parameter(what)[0],
    "time": lambda what: what,
    "after": _after_sqlite,
    "in_order_of": lambda column: "id",
    "to": _to_sqlite,
    "to_after_children": _to_sqlite,
    "batch_to": _batch_to,
    "rows": _rows_sqlite,
    "moment": values_of_sql.moment,
    "minute": lambda time: f"substr({time}, 1, 16) || ':00.000000'",
    "uuid": values_of_sql.uuid,
    "whole": values_of_sql.whole,
}
_OF_POSTGRES: Final[dict[str, Callable[[str], str]]] = {
    "minute": lambda time: f"date_trunc('minute', {time})",
    "rows": _rows_postgres,
    "after": _after_postgres,
    "in_order_of": lambda column: f"{column}, id",
    "to": _to_postgres,
    "to_after_children": _to_after_children_postgres,
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
