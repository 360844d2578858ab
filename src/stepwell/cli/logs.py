"""Where the log of a command goes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from stepwell.cli.errors import Problem

_FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"


def log_to_stderr(level: int) -> None:
    """Everything of Stepwell from this level on; ticks only if asked for."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    handler.setLevel(level)
    for name in ("stepwell", "psycopg.pool"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
    if level <= logging.INFO:
        logging.getLogger("stepwell.dispatcher").setLevel(logging.INFO)


class _Errors(logging.Handler):
    """Those that a logger was told of."""

    def __init__(self) -> None:
        super().__init__()
        self.met: list[Exception] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.met += [word for word in record.args or () if isinstance(word, Exception)]


@contextmanager
def errors_of_the_pool() -> Iterator[list[Exception]]:
    """What a pool of connections meets stands in this list, and not in the log: only it knows why it has none."""
    pool, errors = logging.getLogger("psycopg.pool"), _Errors()
    usual, pool.handlers = pool.handlers, [errors]
    try:
        yield errors.met
    finally:
        pool.handlers = usual


def log_to_file(path: Path) -> None:
    """The log of ticks."""
    from stepwell.dispatch import log

    try:
        log.log_to_file(path)
    except OSError as error:
        raise Problem(f"the log cannot be written to {path}: {error.strerror}") from error
