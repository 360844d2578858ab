"""What a person sees when something goes wrong: one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, ClassVar, Final

import click

from stepwell.cli.text import clean
from stepwell.model.errors import StepwellError

_DRIVERS: Final = ("sqlite3", "psycopg", "psycopg_pool")


class Problem(click.ClickException):
    """Ends the command with one line and exit code 1."""

    exit_code: ClassVar[int] = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"stepwell: {clean(self.message)}", file=file, err=file is None)


class Misuse(Problem):
    """The command was called in a way that cannot work: exit code 2, as for every error of usage."""

    exit_code: ClassVar[int] = 2


def unreachable(why: object) -> Problem:
    """The server does not answer. That may pass: whatever started the command may start it again."""
    return Problem(
        f"PostgreSQL cannot be reached ({' '.join(str(why).split())}); nothing was begun: "
        "see that the server runs and that the address is right, then start this again"
    )


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn what Stepwell raises on purpose, and what a database driver says, into a `Problem`."""
    try:
        yield
    except StepwellError as error:
        raise Problem(str(error)) from error
    except UnicodeEncodeError as error:
        raise Misuse("an argument is not text: it holds bytes that are not UTF-8") from error
    except Exception as error:
        if type(error).__module__.split(".")[0] not in _DRIVERS:
            raise
        raise Problem(f"the database refused: {error}") from error
