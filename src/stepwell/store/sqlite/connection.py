"""Opening a SQLite file: WAL, `synchronous=FULL` (a commit survives a power cut), no automatic checkpoints."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from stepwell.model.errors import DatabaseUnavailable, SchemaError
from stepwell.store.sqlite.access import reason

OLDEST_VERSION: Final = (3, 37, 0)  # STRICT tables
BUSY_SECONDS: Final = 10.0
# The size to which a checkpoint truncates the log. A commit that overwrites existing pages costs half of one that must
# extend the file.
KEPT_BYTES: Final = 1_000 * 4096


def reject_old_sqlite() -> None:
    if sqlite3.sqlite_version_info < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        raise SchemaError(f"Python is linked with SQLite {sqlite3.sqlite_version}; Stepwell needs {oldest} or newer")


def connect(path: Path | None) -> sqlite3.Connection:
    """A connection to the file, or to an in-memory database."""
    target = ":memory:" if path is None else str(path)
    if path is not None:
        _create_private(path)
    try:
        connection = sqlite3.connect(target, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        # SQLite stores any bytes as text. One such row must not stop a statement that reads others, too.
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    except sqlite3.OperationalError as error:
        raise DatabaseUnavailable(_unusable("open", path, error)) from error
    try:
        # A file with only foreign tables may be rejected later, and switching to WAL would modify it.
        if path is not None and not _has_only_foreign_tables(connection):
            switch_to_wal(connection, path)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA journal_size_limit = {KEPT_BYTES}")
        connection.execute("PRAGMA foreign_keys = ON")
        # Statement journals in memory: a statement that changes many rows would otherwise create a file each time.
        connection.execute("PRAGMA temp_store = MEMORY")
        # Every query is meant to use an existing index. With statistics (ANALYZE) SQLite might scan all of `steps` to
        # build a temporary index for a single statement.
        connection.execute("PRAGMA automatic_index = OFF")
    except sqlite3.OperationalError as error:
        connection.close()
        raise DatabaseUnavailable(_unusable("use", path, error)) from error
    except sqlite3.DatabaseError as error:
        connection.close()
        raise SchemaError(f"{target} is not a SQLite database ({error}); it was not changed") from error
    return connection


def _create_private(path: Path) -> None:
    """Create a missing file for its owner alone, because arguments and results may be secret.

    SQLite gives the log and its index the mode of the file.
    """
    with suppress(OSError):  # it exists, or SQLite reports why it cannot be created
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _unusable(what: str, path: Path | None, error: sqlite3.Error) -> str:
    if path is None:
        return f"cannot {what} a database in memory: {error}"
    return f"cannot {what} {path}: {error}; nothing was written: {reason(path)}"


def switch_to_wal(connection: sqlite3.Connection, path: Path) -> None:
    # SQLite returns BUSY at once, ignoring the busy timeout, while another process makes the same switch.
    deadline = time.monotonic() + BUSY_SECONDS
    while journal_mode(connection) != "wal":
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            if mode != "wal":
                raise DatabaseUnavailable(
                    f"{path} cannot use a write-ahead log (its journal mode stays {mode}); nothing was written. "
                    "Put it on a local disk"
                )


def journal_mode(connection: sqlite3.Connection) -> str:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    return str(mode)


def table_names(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _has_only_foreign_tables(connection: sqlite3.Connection) -> bool:
    """Whether there are tables, and none of them belongs to Stepwell."""
    tables = table_names(connection)
    return bool(tables) and "steps_migrations" not in tables
