"""What can be worked on: readiness, and the entries of the agenda and of blocks."""

from __future__ import annotations

from typing import Final

from stepwell.store.macros.macro import Macros, split


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


def _returned(row: str) -> str:
    """The status on the agenda of a step that returns to Pending.

    A task of a main process whose run did not complete it is held until the reschedule beat clears it.
    """
    return (
        f"CASE WHEN {row}.belongs_to = 'process' AND {row}.reason = 'not_completed' THEN 'held' "
        f"WHEN {row}.placed THEN 'unchecked' ELSE 'new' END"
    )


def _agenda_entry(arguments: str) -> str:
    """The entry of a row; with a time, since when it can be worked on: else since its last change."""
    row, since = (*split(arguments), None)[:2]
    return (
        f"{row}.\"group\", coalesce({row}.queue, 'default'), {row}.action, "
        f"CASE {row}.priority WHEN 'high' THEN 0 ELSE 1 END, {row}.dispatch_after, "
        f"{since or f'{row}.updated_at'}, {row}.concurrency_key, "
        f"{row}.concurrency_key IS NOT NULL"
    )


def _takes_room(arguments: str) -> str:
    """Whether a Dispatched step of the agenda is for workers that also serve the group; usually all serve all."""
    row, group = split(arguments)
    return (
        f'({row}."group" = {group} OR NOT EXISTS (SELECT 1 FROM steps_worker_lanes WHERE "group" <> \'\')\n'
        f"    OR EXISTS (SELECT 1 FROM steps_worker_lanes x JOIN steps_worker_lanes y\n"
        f"                   ON y.worker_id = x.worker_id AND y.queue = x.queue\n"
        f'                  AND y."group" IN (\'\', {row}."group")\n'
        f"               WHERE x.queue = {row}.queue AND x.\"group\" IN ('', {group})))"
    )


def _unconcluded_entry(row: str) -> str:
    return (
        f'{row}.id, {row}.block_uuid, {row}.type, {row}."index", '
        f"{row}.state NOT IN @unfinished AND {row}.lease_worker IS NULL, "
        f"CASE WHEN {row}.belongs_to = 'workflow' THEN {row}.workflow_id END"
    )


MACROS: Final[Macros] = {
    "ready": _ready,
    "eligible": _eligible,
    "opened": _opened,
    "returned": _returned,
    "takes_room": _takes_room,
    # Whether the circuit breaker allows the dispatch of Pending steps. A missing row counts as off.
    "is_dispatching": "EXISTS (SELECT 1 FROM steps_settings WHERE name = 'can_dispatch_steps' AND value = 'true')",
    # The columns of an agenda entry; `@agenda_entry` supplies the values of all but the first two.
    "agenda": (
        'steps_agenda (step_id, status, "group", queue, action, rank, due_at, since, concurrency_key, key_blocked)'
    ),
    "agenda_entry": _agenda_entry,
    # The columns of a block entry; `@unconcluded_entry` supplies the values.
    "unconcluded": 'steps_unconcluded (step_id, block_uuid, type, "index", ended, workflow_id)',
    "unconcluded_entry": _unconcluded_entry,
}
