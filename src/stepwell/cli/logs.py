"""Where the log of a command goes."""

from __future__ import annotations

import logging
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


def log_to_file(path: Path) -> None:
    """Write the dispatcher's log there."""
    from stepwell.dispatch import log

    try:
        log.log_to_file(path)
    except OSError as error:
        raise Problem(f"cannot write the log to {path}: {error.strerror}") from error
