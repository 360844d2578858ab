"""A migration on PostgreSQL: in the schema of the tables, one at a time."""

from __future__ import annotations

from typing import Any

import psycopg

from stepwell.model.errors import SchemaError
from stepwell.store.changes import ChangeHooks
from stepwell.store.connections import MigrationSession
from stepwell.store.postgres.namespace import Namespace
from stepwell.store.postgres.servers import reason_to_refuse
from stepwell.store.postgres.transaction import PostgresTransaction


class PostgresMigrationSession(MigrationSession):
    def __init__(self, connection: psycopg.Connection[Any], hooks: ChangeHooks, namespace: Namespace) -> None:
        super().__init__(PostgresTransaction(connection, hooks, namespace=namespace))
        self._connection = connection
        self._named = namespace.schema

    def begin(self) -> None:
        """Wait for other migrations of this schema, and create it if it is named and missing."""
        self._refuse_other_servers()
        name = "'stepwell migration ' || coalesce(%s, current_schema(), '')"
        self._value(f"SELECT pg_advisory_xact_lock(hashtextextended({name}, 0))", self._named)
        if self._named is None:
            return
        if self._value("SELECT 1 FROM pg_namespace WHERE nspname = %s", self._named) is None:
            self._create(self._named)
        self._connection.execute("SELECT set_config('search_path', %s, true)", (f'"{self._named}"',))

    def _refuse_other_servers(self) -> None:
        version = str(self._value("SELECT version()"))
        extensions = self._connection.execute("SELECT extname FROM pg_extension").fetchall()
        if reason := reason_to_refuse(version, [name for (name,) in extensions]):
            raise SchemaError(f"{reason}. Nothing was changed; use PostgreSQL, or a SQLite file")

    def _create(self, schema: str) -> None:
        try:
            self._connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
        except psycopg.errors.InsufficientPrivilege as error:
            role = self._connection.info.user
            raise SchemaError(
                f"there is no schema {schema}, and the role {role} may not create it; nothing was changed. "
                f"Let its owner run: CREATE SCHEMA {schema} AUTHORIZATION {role}"
            ) from error

    def tables(self) -> set[str]:
        found = self._connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = coalesce(%s, current_schema())",
            (self._named,),
        )
        return {row[0] for row in found}

    def run_script(self, script: str) -> None:
        self._connection.execute(script.encode(), prepare=False)

    def define(self, script: str) -> None:
        """Functions and views name their schema, so that they do not depend on the search path of who fires them."""
        self.run_script(Namespace(str(self._value("SELECT current_schema()"))).qualify(script))

    def _value(self, sql: str, *parameters: Any) -> Any:
        row = self._connection.execute(sql.encode(), parameters).fetchone()
        return None if row is None else row[0]
