"""The log of a command: what of it goes to stderr and to a file, and in which format."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stepwell.cli.errors import Problem
from stepwell.cli.settings import setting_option

if TYPE_CHECKING:
    from stepwell import StepLogFilter, Stepwell
    from stepwell.service.config import Config
    from stepwell.service.logs import LogOptions

F = TypeVar("F", bound=Callable[..., Any])


def log_options(function: F) -> F:
    """The options of every command that runs until it is stopped; `start_log` takes them."""
    options = (
        click.option("-v", "--verbose", is_flag=True, help="Log to stderr what begins, ends and changes."),
        setting_option(
            "--log-format", "log.format", metavar="text|json", show_default=True, help="Format of a line of the log."
        ),
        click.option(
            "--log-file", type=click.Path(dir_okay=False, path_type=Path), help="Also write the log to this file."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@dataclass(frozen=True, slots=True)
class CommandLog:
    """The log of a command, once it has started."""

    options: LogOptions
    step_fields: StepLogFilter

    def add_app(self, app: Stepwell) -> None:
        """Log what the app and its jobs log, too."""
        from stepwell.service.logs import log_records_of_app

        self.step_fields.runs = app.running_steps
        log_records_of_app(self.options, self.step_fields)


def start_log(config: Config, *, verbose: bool, log_format: Any, log_file: Path | None) -> CommandLog:
    """Log from now on as the options say; ticks and runs are logged at INFO."""
    from stepwell.run.log_fields import StepLogFilter
    from stepwell.service.logs import LogOptions, set_up_logs
    from stepwell.service.logs.handlers import FileHandler

    level = logging.INFO if verbose else logging.getLevelNamesMapping()[config.log.level.upper()]
    options = LogOptions(level, log_format, None if log_file is None else log_file.absolute())
    if options.file is not None:
        try:
            FileHandler(options.file).open()
        except OSError as error:
            raise Problem(f"cannot write the log to {log_file}: {error.strerror}; nothing was started") from error
    log = CommandLog(options, StepLogFilter())
    set_up_logs(options, log.step_fields)
    return log
