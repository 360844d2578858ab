"""Where the log of a command goes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from stepwell.cli.errors import Problem
from stepwell.service.config.settings import LevelName

_FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"


def log_to_stderr(level_name: LevelName) -> None:
    """Everything that Stepwell logs at this level or above; ticks are logged at INFO."""
    level = logging.getLevelNamesMapping()[level_name.upper()]
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    handler.setLevel(level)
    for name in ("stepwell", "psycopg.pool"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
    if level <= logging.INFO:
        logging.getLogger("stepwell").setLevel(level)


class _Errors(logging.Handler):
    """Collects the exceptions in log records."""

    def __init__(self) -> None:
        super().__init__()
        self.logged: list[Exception] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.logged += [argument for argument in record.args or () if isinstance(argument, Exception)]


@contextmanager
def pool_errors() -> Iterator[list[Exception]]:
    """The errors of a connection pool, in a list and not in the log: only the log has them otherwise."""
    pool, errors = logging.getLogger("psycopg.pool"), _Errors()
    usual, pool.handlers = pool.handlers, [errors]
    try:
        yield errors.logged
    finally:
        pool.handlers = usual


def log_to_file(path: Path) -> None:
    """Write the dispatcher's log there."""
    from stepwell.dispatch import log

    try:
        log.log_to_file(path)
    except OSError as error:
        raise Problem(f"cannot write the log to {path}: {error.strerror}") from error
