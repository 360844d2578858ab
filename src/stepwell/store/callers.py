"""The driver's connection behind what a caller passes as `connection=`.

SQLAlchemy and Django are recognised by their attributes: Stepwell imports neither.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from stepwell.model.errors import StepwellError

OTHER_DATABASE: Final = (
    "this connection leads to another database than that of the app: a step in it would not be found here. Nothing was "
    "written. Pass a connection to the app's own database, or omit `connection`"
)


def driver_connection(given: Any) -> Any:
    """The `sqlite3` or `psycopg` connection of a SQLAlchemy session or connection, or of a Django connection."""
    if is_async(given):
        raise TypeError(
            f"a {_name(given)} is async: it can be used with `await job.options(connection=…).aenqueue(…)`, "
            "`await app.aenqueue(…, connection=…)` and `await app.aenqueue_many(…, connection=…)` only; nothing was "
            "written"
        )
    if hasattr(given, "ensure_connection"):  # Django's wrapper, or its proxy
        given.ensure_connection()
        return given.connection
    if hasattr(given, "get_bind") and callable(getattr(given, "connection", None)):  # SQLAlchemy's session
        given = given.connection()
    if hasattr(given, "in_transaction") and hasattr(given, "dialect"):  # SQLAlchemy's connection
        if not given.in_transaction():
            given.begin()  # as its own first statement does; else its commit would do nothing
        given = given.connection
    return getattr(given, "driver_connection", given)


def is_async(given: Any) -> bool:
    return hasattr(given, "sync_session") or inspect.iscoroutinefunction(getattr(given, "commit", None))


def wrong_connection(connection: Any, database: str, driver: str) -> TypeError:
    return TypeError(
        f"this Stepwell is on {database}; it cannot use a {_name(connection)}. Pass a connection of {driver}, or a "
        f"SQLAlchemy or Django connection that uses {driver}; nothing was written"
    )


def no_transaction() -> StepwellError:
    return StepwellError("the connection is in autocommit mode: open a transaction on it first; nothing was written")


def _name(connection: Any) -> str:
    kind = type(connection)
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"
