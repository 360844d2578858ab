"""The database that a command works on: `--db` before or after the command, else as configured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from stepwell.cli.errors import Misuse
from stepwell.cli.settings import scheduler_options
from stepwell.model.errors import ConfigError
from stepwell.model.redaction import shown_url

if TYPE_CHECKING:
    from stepwell import Stepwell
    from stepwell.service.config import Config

DEFAULT_URL: Final = "sqlite:///stepwell.db"
_HINT: Final = "`stepwell migrate` creates one, --db selects another"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Target:
    """The configuration and the database of a command; `named` is the URL on the command line, if there is one.

    A configuration that cannot be used is an error as soon as a command needs it: `--help` and `demo` do not.
    """

    configuration: Config | ConfigError
    named: str | None = None

    @property
    def config(self) -> Config:
        if isinstance(self.configuration, ConfigError):
            raise self.configuration
        return self.configuration

    @property
    def url(self) -> str:
        configured = self.config.database.url
        return configured if self.named is None else self.named

    def __str__(self) -> str:
        return shown_url(self.url)

    def is_on(self, url: str) -> bool:
        """Whether this URL names the same database, as far as URLs tell."""
        return self.url == url or (_absolute(self.url) is not None and _absolute(self.url) == _absolute(url))

    def open(self, *, create: bool = False, declare_queues: bool = False) -> Stepwell:
        """An app on it. A file or a schema is created only with `create`, queues only with `declare_queues`."""
        from stepwell import Stepwell

        self.refuse_unusable()
        if not create:
            self._refuse_missing()
        return self.configure(Stepwell(self.url), declare_queues=declare_queues).open()

    def configure(self, app: Stepwell, *, declare_queues: bool) -> Stepwell:
        """The app with the settings that it needs before it is opened."""
        app.database.max_connections = self.config.database.max_connections
        app.database.idle_seconds = self.config.database.idle_seconds
        app.environment = self.config.app.environment
        app.scheduler_options = scheduler_options(self.config)
        app.redaction = app.redaction.with_names(self.config.redaction.names)
        if declare_queues:
            app.queues.add(self.config.app.queues)
        return app

    def refuse_unusable(self) -> None:
        """Refuse a database that ends with the command."""
        if self._is_sqlite() and _sqlite_path(self.url) is None:
            raise Misuse(f"{self.url} is a database in memory, which ends with this command; use a file")

    def _refuse_missing(self) -> None:
        if self._is_sqlite():
            path = _sqlite_path(self.url)
            if path is not None and not path.exists():
                raise Misuse(f"no database at {path}; {_HINT}")
        if not self._has_tables():
            raise Misuse(f"no Stepwell schema in {self}; {_HINT}")

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
    from stepwell.store.sqlite.path import path_of

    return path_of(url)


def _absolute(url: str) -> Any:
    path = _sqlite_path(url) if url.startswith("sqlite:") else None
    return None if path is None else path.resolve()


def _name(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj = replace(ctx.obj, named=value)


def database_option(function: F) -> F:
    """`--db` after the command."""
    option = click.option(
        "--db", metavar="URL", callback=_name, expose_value=False, help="The database, as `stepwell --db`."
    )
    return option(function)


def json_option(function: F) -> F:
    """`--json`, on every command that prints a result."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(function)
