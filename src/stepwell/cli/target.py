"""The database that a command works on: chosen by `--db` before or after the command, or by STEPWELL_DB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from stepwell.cli.errors import Misuse, unreachable
from stepwell.cli.text import without_password

if TYPE_CHECKING:
    from stepwell import Stepwell

DEFAULT_URL: Final = "sqlite:///stepwell.db"
CONNECT_SECONDS: Final = 10
_HINT: Final = "`stepwell migrate` or `stepwell enqueue` makes one, --db names another"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Target:
    """A database by its URL; `chosen` means that it was named on the command line."""

    url: str
    chosen: bool

    def __str__(self) -> str:
        return without_password(self.url)

    def open(self, *, create: bool = False) -> Stepwell:
        """An app on it. Only with `create` may a file or a schema come into being."""
        from stepwell import Stepwell

        self.refuse_useless()
        if not create:
            self._refuse_missing()
        return Stepwell(self.url).open()

    def refuse_useless(self) -> None:
        """A server that does not answer, or a database of which nothing is left when the command ends."""
        self._refuse_unreachable()
        if self._is_sqlite() and _sqlite_path(self.url) is None:
            raise Misuse(f"{self.url} is a database in memory: it ends with this command; name a file")

    def _refuse_unreachable(self) -> None:
        """A pool would try for ten seconds and not say why it failed; a person at a terminal wants both at once."""
        if not self.url.startswith(("postgresql:", "postgres:")):
            return
        try:
            import psycopg
        except ImportError:
            return  # the store says what to install
        try:
            psycopg.connect(self.url, connect_timeout=CONNECT_SECONDS).close()
        except psycopg.Error as error:
            raise unreachable(error) from error

    def _refuse_missing(self) -> None:
        if self._is_sqlite():
            path = _sqlite_path(self.url)
            if path is not None and not path.exists():
                raise Misuse(f"there is no database {path}; {_HINT}")
        if not self._has_tables():
            raise Misuse(f"there is no Stepwell schema in {self}; {_HINT}")

    def _is_sqlite(self) -> bool:
        return self.url.startswith("sqlite:")

    def _has_tables(self) -> bool:
        from stepwell.model.clock import SystemClock
        from stepwell.store import open_database

        database = open_database(self.url, SystemClock())
        try:
            with database.inspecting() as session:
                return bool(session.tables() & {"steps", "steps_migrations"})
        finally:
            database.close()


def _sqlite_path(url: str) -> Any:
    from stepwell.store.sqlite.connection import path_of

    return path_of(url)


def _choose(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj = Target(value, chosen=True)


def database_option(function: F) -> F:
    """`--db` after the command, too."""
    option = click.option(
        "--db", metavar="URL", callback=_choose, expose_value=False, help="The database, as before the command."
    )
    return option(function)


def json_option(function: F) -> F:
    """`--json` on everything that answers."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")(function)
