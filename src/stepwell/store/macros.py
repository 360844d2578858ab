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
    "survived": dict.fromkeys((SQLITE, POSTGRES), "rescues = 0, begun = true"),
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
        "    rescues = 0, begun = true,\n"
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
    "CASE current_setting('stepwell.clock', true) WHEN 'injected' THEN CAST(:now AS timestamptz) "
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


def _agenda_entry(row: str) -> str:
    return (
        f"{row}.\"group\", coalesce({row}.queue, 'default'), {row}.action, "
        f"CASE {row}.priority WHEN 'high' THEN 0 ELSE 1 END, {row}.dispatch_after, {row}.concurrency_key, "
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


def _moment(text: str) -> str:
    """A time of plain SQL as SQLite stores it; NULL if there is none.

    ISO 8601 as PostgreSQL takes it: a space or a T, no seconds or no time, a fraction, Z or an offset.
    """
    head = f"CASE WHEN substr({text}, 17, 1) = ':' THEN substr({text}, 1, 19) ELSE substr({text}, 1, 16) END"
    rest = f"substr({text}, length({head}) + 1)"
    zone = f"trim(upper(ltrim({rest}, '.0123456789')))"
    offset = (
        f"CASE length({zone}) WHEN 3 THEN {zone} || ':00' "
        f"WHEN 5 THEN substr({zone}, 1, 3) || ':' || substr({zone}, 4) ELSE {zone} END"
    )
    micro = f"CAST(round(1e6 * CASE WHEN {rest} LIKE '.%' THEN CAST('0' || {rest} AS real) ELSE 0 END) AS integer)"
    moment = (
        f"strftime('%Y-%m-%d %H:%M:%S', upper({head}) || {offset}, ({micro} / 1000000) || ' seconds') "
        f"|| printf('.%06d', {micro} % 1000000)"
    )
    # A date that exists (SQLite would turn 02-31 into 03-03), in the range of Python in any time zone.
    return (
        f"CASE WHEN date(substr({text}, 1, 10), '+0 days') IS substr({text}, 1, 10)\n"
        f"      AND (substr({text}, 12, 2) <> '24' OR substr({text}, 12, 8) IN ('24:00', '24:00:00'))\n"
        f"      AND {moment} >= '0001-01-02' AND {moment} < '9999-12-31' THEN {moment} END"
    )


def _uuid(text: str) -> str:
    """A UUID in the form in which PostgreSQL returns it; NULL if it is none."""
    bare = f"lower(trim({text}, '{{}}'))"
    digits = f"replace({bare}, '-', '')"
    parts = ", ".join(f"substr({digits}, {start}, {length})" for start, length in ((1, 8), (9, 4), (13, 4), (17, 4)))
    return (
        f"CASE WHEN length({digits}) = 32 AND {digits} NOT GLOB '*[^0-9a-f]*'\n"
        f"      AND ({bare} = {digits} OR {bare} GLOB '????????-????-????-????-????????????')\n"
        f"      THEN printf('%s-%s-%s-%s-%s', {parts}, substr({digits}, 21)) END"
    )


def _whole(value: str) -> str:
    """A number of plain SQL, rounded as PostgreSQL rounds it; NULL if it is none."""
    return (
        f"CASE typeof({value}) WHEN 'integer' THEN {value} WHEN 'real' THEN CAST(round({value}) AS integer) "
        f"WHEN 'text' THEN CASE WHEN trim({value}) <> '' AND ltrim(trim({value}), '+-') NOT GLOB '*[^0-9]*' "
        f"THEN CAST(trim({value}) AS integer) END END"
    )


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


_SHARED: Final[dict[str, Callable[[str], str]]] = {
    "legal": _legal, "ready": _ready, "eligible": _eligible, "opened": _opened, "outdated": _outdated,
    "agenda_entry": _agenda_entry, "unconcluded_entry": _unconcluded_entry, "takes_room": _takes_room,
    "returned": _returned, "lease_is_dead": _lease_is_dead, "task_state": _task_state,
}  # fmt: skip
_OF_SQLITE: Final[dict[str, Callable[[str], str]]] = {
    "sqlite": lambda what: what,
    "postgres": lambda what: "",
    "in": _in_sqlite,
    "not_in": lambda what: f"NOT IN (SELECT value FROM json_each({_parameter(what)[0]}))",
    "array": lambda what: _parameter(what)[0],
    "time": lambda what: what,
    "to": _to_sqlite,
    "to_after_children": _to_sqlite,
    "batch_to": _batch_to,
    "rows": _rows_sqlite,
    "moment": _moment,
    "uuid": _uuid,
    "whole": _whole,
}
_OF_POSTGRES: Final[dict[str, Callable[[str], str]]] = {
    "rows": _rows_postgres,
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
