"""Syntax that differs between the databases: lists, rows, times, and what only one of them needs."""

from __future__ import annotations

from typing import Final

from stepwell.store.macros.macro import PARAMETER, POSTGRES, SQLITE, Macros, parameter, split


def _in_sqlite(what: str) -> str:
    if found := PARAMETER.match(what):
        return f"IN (SELECT value FROM json_each({found[1]}))"
    return f"IN ({what})"


def _in_postgres(what: str) -> str:
    """An array is computed first and then looked up; for IN, the planner may scan all steps to find a few."""
    if found := PARAMETER.match(what):
        return f"= ANY(CAST({found[1]} AS {found[2]}[]))"
    return f"= ANY(ARRAY({what}))"


def _rows_sqlite(arguments: str) -> str:
    """The rows of a parameter with a JSON array of arrays: `:rows, id bigint, name text`."""
    source, *columns = split(arguments)
    places = ", ".join(f"json_extract(value, '$[{at}]') AS {each.split()[0]}" for at, each in enumerate(columns))
    return f"(SELECT {places} FROM json_each({source}))"


def _rows_postgres(arguments: str) -> str:
    source, *columns = split(arguments)
    places = ", ".join(
        f"CAST(value ->> {at} AS {kind}) AS {name}" for at, (name, kind) in enumerate(map(str.split, columns))
    )
    return f"(SELECT {places} FROM json_array_elements(CAST({source} AS json)))"


def _after_sqlite(arguments: str) -> str:
    column, value = split(arguments)
    return f"{column} = {value} AND id > :after"


def _after_postgres(arguments: str) -> str:
    """The next rows of a group by id.

    Told that all have one value of the column, the planner may take the order of the primary key, and read the rows of
    all other groups.
    """
    column, value = split(arguments)
    return f"({column}, id) > ({value}, :after) AND {column} <= {value}"


MACROS_OF: Final[dict[str, Macros]] = {
    SQLITE: {
        "sqlite": lambda what: what,
        "postgres": lambda what: "",
        "in": _in_sqlite,
        "not_in": lambda what: f"NOT IN (SELECT value FROM json_each({parameter(what)[0]}))",
        "array": lambda what: parameter(what)[0],
        "rows": _rows_sqlite,
        "time": lambda what: what,
        "minute": lambda time: f"substr({time}, 1, 16) || ':00.000000'",
        "database_time": "strftime('%Y-%m-%d %H:%M:%f000', 'now')",
        "after": _after_sqlite,
        "in_order_of": lambda column: "id",
    },
    POSTGRES: {
        "sqlite": lambda what: "",
        "postgres": lambda what: what,
        "in": _in_postgres,
        "not_in": lambda what: "<> ALL(CAST({} AS {}[]))".format(*parameter(what)),
        "array": lambda what: "CAST({} AS {}[])".format(*parameter(what)),
        "rows": _rows_postgres,
        "time": lambda what: f"CAST({what} AS timestamptz)",  # of a parameter whose type PostgreSQL cannot infer
        "minute": lambda time: f"date_trunc('minute', {time})",
        "database_time": "now()",
        "after": _after_postgres,
        "in_order_of": lambda column: f"{column}, id",
        # The number of the lock that a tick holds while it dispatches to a queue.
        "queue_lock": lambda what: f"hashtextextended('dispatch in ' || current_schema() || ' to ' || {what}, 0)",
    },
}
