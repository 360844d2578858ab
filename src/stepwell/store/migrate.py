"""Versioned migrations: numbered `.sql` files per dialect, applied once, each with its checksum on record."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stepwell.model.errors import SchemaError
from stepwell.model.states import TRANSITIONS
from stepwell.store.database import Database, MigrationSession

_FOLDER: Final = Path(__file__).parent / "migrations"
_LEDGER: Final = "steps_migrations"
_CREATED: Final = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    script: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.script.encode()).hexdigest()


def known_migrations(dialect: str) -> list[Migration]:
    """What this program can apply, in order."""
    found = []
    for path in sorted((_FOLDER / dialect).glob("[0-9]*.sql")):
        version, name = path.stem.split("_", 1)
        found.append(Migration(int(version), name, path.read_text(encoding="utf-8")))
    return found


def migrate(database: Database) -> list[Migration]:
    """Bring the schema up to date and return what was applied. Any number of processes may do this at once."""
    known = known_migrations(database.dialect)
    with database.migrating() as session:
        applied = _inspect(session, known)
        missing = known[applied:]
        for migration in missing:
            _apply(session, migration)
        if missing:
            _copy_legal_transitions(session)
    return missing


_granted: Final[ContextVar[bool]] = ContextVar("stepwell_schema_granted", default=False)


@contextmanager
def taking_the_schema_for_granted(granted: bool = True) -> Iterator[None]:
    """Apps that are opened meanwhile do not look: a worker has, and its slots need not all connect for that."""
    token = _granted.set(granted)
    try:
        yield
    finally:
        _granted.reset(token)


def is_granted() -> bool:
    """Whether a slot opens the app: what its worker has looked at and written is there."""
    return _granted.get()


def ensure_schema(database: Database) -> None:
    """Create the schema in an empty database; refuse one that is older, newer or damaged."""
    if is_granted():
        return
    known = known_migrations(database.dialect)
    with database.migrating() as session:
        applied = _inspect(session, known)
    if applied == 0:
        migrate(database)
    elif applied < len(known):
        raise SchemaError(
            f"the database's schema has version {applied}, this program needs version {len(known)}; "
            "nothing was changed: run `stepwell migrate` (old and new workers may run side by side meanwhile)"
        )


def _inspect(session: MigrationSession, known: list[Migration]) -> int:
    """How many of the known migrations the database has, having checked that they are the same ones."""
    tables = session.tables()
    if _LEDGER not in tables:
        created = [table for migration in known for table in _CREATED.findall(migration.script)]
        if taken := next((table for table in created if table in tables), None):
            raise SchemaError(
                f"there is a table `{taken}` but no `{_LEDGER}`: it is not Stepwell's, or the schema is damaged; "
                "nothing was changed: use another database or schema, or restore a backup"
            )
        return 0
    recorded = session.tx.rows("applied_migrations")
    if not recorded:
        raise SchemaError(f"`{_LEDGER}` is empty: the schema is damaged; nothing was changed: restore a backup")
    if len(recorded) > len(known):
        raise SchemaError(
            f"the database's schema has version {recorded[-1]['version']}, this program knows only {len(known)}; "
            "nothing was changed: update Stepwell on this machine"
        )
    for row, migration in zip(recorded, known, strict=False):
        if (row["version"], row["checksum"]) != (migration.version, migration.checksum):
            raise SchemaError(
                f"migration {row['version']} of the database is not the one of this program: the schema is damaged "
                "or was made by a modified Stepwell; nothing was changed: restore a backup or install that version"
            )
    expected = {table for migration in known[: len(recorded)] for table in _CREATED.findall(migration.script)}
    if gone := sorted(expected - tables):
        raise SchemaError(f"the schema is damaged: {', '.join(gone)} missing; nothing was changed: restore a backup")
    return len(recorded)


def _apply(session: MigrationSession, migration: Migration) -> None:
    session.run_script(migration.script)
    session.tx.change("record_migration", version=migration.version, name=migration.name, checksum=migration.checksum)


def _copy_legal_transitions(session: MigrationSession) -> None:
    session.tx.change("forget_legal_transitions")
    session.tx.insert(
        "steps_legal_transitions",
        ("from_state", "to_state", "mover"),
        [(str(origin), str(target), str(mover)) for (origin, target), mover in TRANSITIONS.items()],
    )
