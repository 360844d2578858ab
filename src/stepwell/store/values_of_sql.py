"""The values of plain SQL in the form in which Stepwell stores them on SQLite, as macros.

PostgreSQL does this by the types of its columns.
"""

from __future__ import annotations


def moment(text: str) -> str:
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


def uuid(text: str) -> str:
    """A UUID in the form in which PostgreSQL returns it; NULL if it is none."""
    bare = f"lower(trim({text}, '{{}}'))"
    digits = f"replace({bare}, '-', '')"
    parts = ", ".join(f"substr({digits}, {start}, {length})" for start, length in ((1, 8), (9, 4), (13, 4), (17, 4)))
    return (
        f"CASE WHEN length({digits}) = 32 AND {digits} NOT GLOB '*[^0-9a-f]*'\n"
        f"      AND ({bare} = {digits} OR {bare} GLOB '????????-????-????-????-????????????')\n"
        f"      THEN printf('%s-%s-%s-%s-%s', {parts}, substr({digits}, 21)) END"
    )


def whole(value: str) -> str:
    """A number of plain SQL, rounded as PostgreSQL rounds it; NULL if it is none."""
    return (
        f"CASE typeof({value}) WHEN 'integer' THEN {value} WHEN 'real' THEN CAST(round({value}) AS integer) "
        f"WHEN 'text' THEN CASE WHEN trim({value}) <> '' AND ltrim(trim({value}), '+-') NOT GLOB '*[^0-9]*' "
        f"THEN CAST(trim({value}) AS integer) END END"
    )
