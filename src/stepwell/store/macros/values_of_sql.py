"""The values of plain SQL in the form in which Stepwell stores them on SQLite, as macros.

PostgreSQL does this by the types of its columns.
"""

from __future__ import annotations

from typing import Final

from stepwell.store.macros.macro import POSTGRES, SQLITE, Macros


def _moment(text: str) -> str:
    """A time of plain SQL as SQLite stores it; NULL if there is none.

    ISO 8601 as PostgreSQL takes it: a space or a T, no seconds or no time, a fraction, Z or an offset.
    """
    head = _row(
        f"CASE WHEN substr({text}, 17, 1) = ':' THEN substr({text}, 1, 19) ELSE substr({text}, 1, 16) END AS head"
    )
    rest = _row(f"head, substr({text}, length(head) + 1) AS rest", head)
    parts = _row(
        "head, trim(upper(ltrim(rest, '.0123456789'))) AS zone, "
        "CAST(round(1e6 * CASE WHEN rest LIKE '.%' THEN CAST('0' || rest AS real) ELSE 0 END) AS integer) AS micro",
        rest,
    )
    offset = (
        "CASE length(zone) WHEN 3 THEN zone || ':00' "
        "WHEN 5 THEN substr(zone, 1, 3) || ':' || substr(zone, 4) ELSE zone END"
    )
    found = _row(
        f"strftime('%Y-%m-%d %H:%M:%S', upper(head) || {offset}, (micro / 1000000) || ' seconds') "
        "|| printf('.%06d', micro % 1000000) AS moment",
        parts,
    )
    # A date that exists (SQLite would turn 02-31 into 03-03), in the range of Python in any time zone.
    return (
        f"CASE WHEN date(substr({text}, 1, 10), '+0 days') IS substr({text}, 1, 10)\n"
        f"      AND (substr({text}, 12, 2) <> '24' OR substr({text}, 12, 8) IN ('24:00', '24:00:00'))\n"
        f"      THEN (SELECT moment FROM {found} WHERE moment >= '0001-01-02' AND moment < '9999-12-31') END"
    )


def _uuid(text: str) -> str:
    """A UUID in the form in which PostgreSQL returns it; NULL if it is none."""
    bare = _row(f"lower(trim({text}, '{{}}')) AS bare")
    digits = _row("bare, replace(bare, '-', '') AS digits", bare)
    parts = ", ".join(f"substr(digits, {start}, {length})" for start, length in ((1, 8), (9, 4), (13, 4), (17, 4)))
    return (
        f"(SELECT printf('%s-%s-%s-%s-%s', {parts}, substr(digits, 21)) FROM {digits}\n"
        f"      WHERE length(digits) = 32 AND digits NOT GLOB '*[^0-9a-f]*'\n"
        f"        AND (bare = digits OR bare GLOB '????????-????-????-????-????????????'))"
    )


def _row(columns: str, source: str = "") -> str:
    """A row with names for values that are used several times.

    LIMIT keeps SQLite from writing the values out wherever they are used. Every statement that inserts steps contains
    the trigger with these macros; without it, that took 1.7 ms to compile, with 10,400 instructions.
    """
    return f"(SELECT {columns}{f' FROM {source}' if source else ''} LIMIT 1)"


def _whole(value: str) -> str:
    """A number of plain SQL, rounded as PostgreSQL rounds it; NULL if it is none."""
    return (
        f"CASE typeof({value}) WHEN 'integer' THEN {value} WHEN 'real' THEN CAST(round({value}) AS integer) "
        f"WHEN 'text' THEN CASE WHEN trim({value}) <> '' AND ltrim(trim({value}), '+-') NOT GLOB '*[^0-9]*' "
        f"THEN CAST(trim({value}) AS integer) END END"
    )


MACROS_OF: Final[dict[str, Macros]] = {
    SQLITE: {"moment": _moment, "uuid": _uuid, "whole": _whole},
    POSTGRES: {},
}
