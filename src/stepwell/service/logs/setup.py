"""Connecting loggers with handlers, in a command and in the processes of its slots."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from stepwell.service.logs.formats import FORMATTERS
from stepwell.service.logs.handlers import FileHandler, StderrHandler

FormatName: TypeAlias = Literal["text", "json"]

_OURS: Final = ("stepwell", "psycopg.pool")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What is logged to stderr, how a line looks, and a file that gets everything from INFO on."""

    level: int = logging.WARNING
    format: FormatName = "text"
    file: Path | None = None

    @property
    def lowest(self) -> int:
        return self.level if self.file is None else min(self.level, logging.INFO)


def set_up_logs(options: LogOptions, step_fields: logging.Filter) -> None:
    """Log what Stepwell does. `step_fields` adds the running step to a record."""
    handlers: list[logging.Handler] = [StderrHandler(options.level)]
    if options.file is not None:
        handlers.append(FileHandler(options.file, options.lowest))
    for handler in handlers:
        handler.setFormatter(FORMATTERS[options.format]())
        handler.addFilter(step_fields)
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.handlers[:] = handlers
        logger.propagate = False
    logging.getLogger("stepwell.names").handlers.clear()  # a command without a log prints these warnings itself
    logging.getLogger("stepwell").setLevel(min(options.lowest, logging.WARNING))


def log_records_of_app(options: LogOptions, step_fields: logging.Filter) -> None:
    """Log what the app and its jobs log, too: call it when the app is imported.

    Warnings and errors of threads are records, too: as Python prints them, their text could forge lines of the log.
    An app that has configured the root logger keeps its handlers, and their records get the fields of the step. Where
    it has not chosen a format (`basicConfig`), it gets that of Stepwell.
    """
    logging.captureWarnings(True)
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _log_error_of_thread
    root, handlers = logging.getLogger(), logging.getLogger("stepwell").handlers
    if not root.handlers:
        root.handlers[:] = handlers
        if root.level == logging.WARNING:  # the default
            root.setLevel(options.lowest)
        return
    for handler in root.handlers:
        if handler not in handlers:
            handler.addFilter(step_fields)
            if _has_default_format(handler):
                handler.setFormatter(FORMATTERS[options.format]())


def _log_error_of_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
        name = "?" if args.thread is None else args.thread.name
        found = (args.exc_type, args.exc_value, args.exc_traceback)
        logging.getLogger("threading").error("error in thread %s", name, exc_info=found)


def _has_default_format(handler: logging.Handler) -> bool:
    chosen = handler.formatter
    return chosen is None or (type(chosen) is logging.Formatter and chosen._fmt == logging.BASIC_FORMAT)
