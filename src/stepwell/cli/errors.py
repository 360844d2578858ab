"""What the user sees when something goes wrong: a line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, ClassVar, Final

import click

from stepwell.cli.text import clean, to_json
from stepwell.model.errors import ConfigError, StepwellError
from stepwell.model.redaction import redacted

_DRIVERS: Final = ("sqlite3", "psycopg", "psycopg_pool")


class Problem(click.ClickException):
    """Ends the command with one line and exit code 1."""

    exit_code: ClassVar[int] = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"stepwell: {clean(self.message)}", file=file, err=file is None)

    def lines(self) -> tuple[str, ...]:
        """What went wrong, one message for each problem."""
        return (self.message,)


class Misuse(Problem):
    """The command was called in a way that cannot work: exit code 2, as for every usage error."""

    exit_code: ClassVar[int] = 2


class BadConfiguration(Misuse):
    """Settings that cannot be used: one line for each, with its file and line or its variable."""

    def __init__(self, error: ConfigError) -> None:
        super().__init__(str(error))
        self._problems = error.problems

    def show(self, file: IO[Any] | None = None) -> None:
        for problem in self._problems:
            click.echo(clean(problem), file=file, err=file is None)

    def lines(self) -> tuple[str, ...]:
        return self._problems


def show_as_json(error: click.ClickException) -> None:
    """The error of a command with --json: one JSON document on stderr, so that stdout has a result or nothing."""
    messages = error.lines() if isinstance(error, Problem) else (error.format_message(),)
    found = {"error": {"messages": [clean(message) for message in messages], "exit_code": error.exit_code}}
    click.echo(to_json(found), err=True)


def warn(text: str) -> None:
    """A line about what does not end the command."""
    click.echo(f"stepwell: warning: {clean(text)}", err=True)


class Warnings(logging.Handler):
    """Prints warnings about names."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn the errors of Stepwell and of the database drivers into a `Problem`."""
    try:
        yield
    except ConfigError as error:
        raise BadConfiguration(error) from error
    except StepwellError as error:
        raise Problem(str(error)) from error
    except UnicodeEncodeError as error:
        raise Misuse("an argument is not valid UTF-8") from error
    except Exception as error:
        if type(error).__module__.split(".")[0] not in _DRIVERS:
            raise
        raise Problem(redacted(f"database error: {error}")) from error
