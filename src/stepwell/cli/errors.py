"""What a person sees when something goes wrong: one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

import click

from stepwell.cli.text import clean
from stepwell.model.errors import StepwellError

REFUSED: Final = 1
USAGE: Final = 2
_DRIVERS: Final = ("sqlite3", "psycopg", "psycopg_pool")


class Problem(click.ClickException):
    """Ends the command with one line and an exit code."""

    def __init__(self, message: str, exit_code: int = REFUSED) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"stepwell: {clean(self.message)}", file=file, err=file is None)


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn what Stepwell raises on purpose, and what a database driver says, into a `Problem`."""
    try:
        yield
    except StepwellError as error:
        raise Problem(str(error)) from error
    except UnicodeEncodeError as error:
        raise Problem("an argument is not text: it holds bytes that are not UTF-8", USAGE) from error
    except Exception as error:
        if type(error).__module__.split(".")[0] not in _DRIVERS:
            raise
        raise Problem(f"the database refused: {error}") from error
