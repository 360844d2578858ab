"""Under what counters, minutes and the list of trouble count a step."""

from __future__ import annotations

from typing import Final

from stepwell.store.macros.macro import Macros, split


def _counted(arguments: str) -> str:
    """Under which counter a step is counted, by `row, state`: the columns of `steps_totals` without the number.

    The group matters while a step is queued, the host while it runs, throttling while it is Pending. (So the rows of
    the tally are few: a batch of endings has steps of all groups, and usually of one host and action.)
    """
    row, state = split(arguments)
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
        f"CASE WHEN {row}.fingerprint IS NOT NULL AND {row}.state IN ('Failed', 'Stopped') THEN {row}.fingerprint "
        f"ELSE {row}.action || ':' || coalesce({row}.reason, lower({row}.state)) END, "
        f"CASE WHEN {row}.reason IN @cascaded THEN 0 END, {row}.updated_at"
    )


def _cause(row: str) -> str:
    """The fingerprint under which a row of `steps_trouble` is counted; NULL: under none."""
    return (
        f"coalesce({row}.cause_fingerprint, "
        f"CASE WHEN {row}.cause IS NULL AND {row}.state IN @failed THEN {row}.fingerprint END)"
    )


def _alike(row: str) -> str:
    """1 if it is one of the failures that are alike."""
    return f"CASE WHEN {row}.cause_fingerprint IS NULL THEN 1 ELSE 0 END"


def _behind(row: str) -> str:
    """1 if it ended only because of one of them."""
    return f"CASE WHEN {row}.cause_fingerprint IS NULL THEN 0 ELSE 1 END"


MACROS: Final[Macros] = {
    "counted": _counted,
    "happened": _happened,
    "trouble": _trouble,
    "cause": _cause,
    "alike": _alike,
    "behind": _behind,
}
