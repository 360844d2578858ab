"""Where the log of a command goes."""

from __future__ import annotations

import logging
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


def log_to_file(path: Path) -> None:
    """The log of ticks."""
    from stepwell.dispatch import log

    try:
        log.log_to_file(path)
    except OSError as error:
        raise Problem(f"the log cannot be written to {path}: {error.strerror}") from error
