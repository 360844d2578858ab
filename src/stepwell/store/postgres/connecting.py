"""Connecting to PostgreSQL: errors name the reason and no password, also as a `__cause__` and in the log of a pool."""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Final, Self

import psycopg

from stepwell.model.errors import DatabaseUnavailable, StepwellError
from stepwell.model.redaction import is_well_formed, redacted_for, shown_url
from stepwell.store.postgres.namespace import MALFORMED

CONNECT_SECONDS: Final = 10

_REFUSED: Final = re.compile(r"pg_hba\.conf|does not exist|permission denied|not permitted|not currently accepting")


class ServerConnection(psycopg.Connection[Any]):
    """A connection whose errors contain no password, and which knows why the server has ended it."""

    was_idle_too_long = False  # in a transaction: the server has rolled it back

    def note_end(self, notice: psycopg.errors.Diagnostic) -> None:
        """Between two statements, the last message of the server is a notice: the next error does not have it."""
        if notice.sqlstate == psycopg.errors.IdleInTransactionSessionTimeout.sqlstate:
            self.was_idle_too_long = True

    @classmethod
    def connect(  # type: ignore[override]
        cls, conninfo: str = "", *, failures: deque[str] | None = None, **settings: Any
    ) -> Self:
        """The reason of a failure is added to `failures`: a pool only logs it."""
        try:
            connection = super().connect(conninfo, **settings)
        except psycopg.Error as error:
            kind, quoted = type(error), redacted_for(conninfo, str(error))
        except UnicodeError:  # an escape like %CA, which is no UTF-8
            kind, quoted = psycopg.ProgrammingError, None
        else:
            connection.add_notice_handler(connection.note_end)
            return connection
        text = MALFORMED if quoted is None else " ".join(quoted.split())
        if failures is not None:
            failures.append(text)
        # Outside of the handler: the original error, with its text, must not become the context of this one.
        raise kind(text)


def check_server(url: str) -> None:
    """Connect once: a pool would try for ten seconds and not report why it failed."""
    try:
        ServerConnection.connect(url, connect_timeout=CONNECT_SECONDS).close()
    except psycopg.ProgrammingError as error:
        raise StepwellError(str(error)) from error
    except psycopg.Error as error:
        raise unreachable(url, error) from error


def unreachable(url: str, why: object) -> DatabaseUnavailable:
    """The error for a server that does not accept a connection."""
    text = str(why)
    if not is_well_formed(url):
        return DatabaseUnavailable(text)
    what, todo = "cannot be reached", "check that the server is running and that the URL is right, then try again"
    if "authentication failed" in text or "no password supplied" in text:
        what, todo = "refused the login", "check user and password in the URL"
    elif re.search(r'database "[^"]*" does not exist', text):
        what, todo = "has no such database", "create it (createdb) or correct the name at the end of the URL"
    elif _REFUSED.search(text):
        what, todo = "refused the connection", "check the URL and the rights of its user"
    return DatabaseUnavailable(f"PostgreSQL {what} ({text}) at {shown_url(url)}; nothing was written: {todo}")
