"""Versioned migrations: numbered `.sql` files per dialect, each applied once, with its checksum recorded.

Migrations create tables. Triggers and views are definitions: whenever those of the program differ from the recorded
ones, `migrate` re-creates them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from stepwell.model.errors import DatabaseBusy, SchemaError
from stepwell.store.conflict import Conflict
from stepwell.store.connections import MigrationSession
from stepwell.store.database import Database
from stepwell.store.definitions import SCHEMA_FOLDER, definitions
from stepwell.store.engine import schema

T = TypeVar("T")

TRIES: Final = 10
_MIGRATIONS: Final = "steps_migrations"
_DEFINITIONS: Final = 0  # the version under which the checksum of triggers and views is recorded
_CREATED: Final = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    script: str

    @property
    def checksum(self) -> str:
        return _checksum(self.script)


def known_migrations(dialect: str) -> list[Migration]:
    """The migrations of this program, in order."""
    found = []
    for path in sorted((SCHEMA_FOLDER / dialect).glob("[0-9]*.sql")):
        version, name = path.stem.split("_", 1)
        found.append(Migration(int(version), name, path.read_text(encoding="utf-8")))
    return found


def migrate(database: Database) -> list[Migration]:
    """Update the schema and return the applied migrations. Any number of processes may call this at once."""
    known = known_migrations(database.dialect)

    def work() -> list[Migration]:
        with database.migrating() as session:
            applied = _inspect(session, known)
            missing = known[applied:]
            for migration in missing:
                _apply(session, migration)
            _define(session, database.dialect)
        return missing

    return _repeated(work)


def ensure_schema(database: Database) -> None:
    """Create the schema in an empty database; reject one that is older, newer or damaged."""
    known = known_migrations(database.dialect)

    def look() -> tuple[int, object]:
        with database.inspecting() as session:
            applied = _inspect(session, known)
            return applied, applied == 0 or schema.recorded_checksum(session.tx, version=_DEFINITIONS)

    applied, defined = _repeated(look)
    if applied == 0:
        migrate(database)
    elif applied < len(known):
        raise SchemaError(
            f"the database schema has version {applied}, this program needs version {len(known)}; "
            "nothing was changed. Run `stepwell migrate` (old and new workers can run side by side meanwhile)"
        )
    elif defined != _checksum(definitions(database.dialect)):
        raise SchemaError(
            "the triggers and views in the database differ from those of this program; nothing was changed. "
            "Run `stepwell migrate` with the newest Stepwell that uses this database"
        )


def _repeated(work: Callable[[], T]) -> T:
    """Run it again after a conflict, or if this process was suspended until the server had ended its session."""
    for _ in range(TRIES):
        try:
            return work()
        except Conflict as error:
            conflict = error
    raise DatabaseBusy(f"the schema stayed busy for {TRIES} tries ({conflict}); nothing was written") from conflict


def applied_version(database: Database) -> int:
    """The schema version of a database."""
    return max(row.version for row in database.read(schema.applied_migrations))


def _inspect(session: MigrationSession, known: list[Migration]) -> int:
    """How many of the known migrations the database has, after checking that they are identical."""
    tables = session.tables()
    if _MIGRATIONS not in tables:
        created = [table for migration in known for table in _CREATED.findall(migration.script)]
        if taken := next((table for table in created if table in tables), None):
            raise SchemaError(
                f"the database has a table `{taken}` but no `{_MIGRATIONS}`: the table belongs to another program, or "
                "the schema is damaged; nothing was changed. Use another database or schema, or restore a backup"
            )
        return 0
    recorded = [row for row in schema.applied_migrations(session.tx) if row.version != _DEFINITIONS]
    if not recorded:
        raise SchemaError(f"`{_MIGRATIONS}` is empty: the schema is damaged; nothing was changed. Restore a backup")
    if len(recorded) > len(known):
        raise SchemaError(
            f"the database schema has version {recorded[-1].version}, this program supports only {len(known)}; "
            "nothing was changed. Update Stepwell on this machine"
        )
    for row, migration in zip(recorded, known, strict=False):
        if (row.version, row.checksum) != (migration.version, migration.checksum):
            raise SchemaError(
                f"migration {row.version} in the database differs from that of this program: the schema is damaged, or "
                "a modified Stepwell created it; nothing was changed. Restore a backup or install that version"
            )
    expected = {table for migration in known[: len(recorded)] for table in _CREATED.findall(migration.script)}
    if missing := sorted(expected - tables):
        raise SchemaError(f"the schema is damaged: {', '.join(missing)} missing; nothing was changed. Restore a backup")
    return len(recorded)


def _apply(session: MigrationSession, migration: Migration) -> None:
    session.run_script(migration.script)
    schema.record_migration(session.tx, version=migration.version, name=migration.name, checksum=migration.checksum)


def _define(session: MigrationSession, dialect: str) -> None:
    script = definitions(dialect)
    if schema.recorded_checksum(session.tx, version=_DEFINITIONS) != _checksum(script):
        session.define(script)
        schema.record_migration(session.tx, version=_DEFINITIONS, name="triggers and views", checksum=_checksum(script))


def _checksum(script: str) -> str:
    return hashlib.sha256(script.encode()).hexdigest()
