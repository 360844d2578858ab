"""Options that are also settings: they take the values that stepwell.toml takes, and their defaults come from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from stepwell.service.config import Config, Setting, all_settings
from stepwell.service.config.kinds import BadValue

if TYPE_CHECKING:
    from stepwell.dispatch.tick import TickOptions
    from stepwell.operate.reaper import ReaperOptions
    from stepwell.operate.retention import RetentionOptions
    from stepwell.schedule.options import Options

F = TypeVar("F", bound=Callable[..., Any])

_WORKER: Final = {
    "app_name": "app.name",
    "queues": "worker.queues",
    "slots": "worker.slots",
    "executor": "worker.executor",
    "strategy": "worker.strategy",
    "grace": "worker.grace_seconds",
    "lease": "worker.lease_seconds",
    "max_memory": "worker.max_memory",
}
_DISPATCHER: Final = {"groups": "dispatcher.groups"}
_LOG: Final = {"log_file": "log.file", "log_format": "log.format"}
# Command → parameter → the setting that holds its default.
_SETTINGS: Final = {
    "worker": _WORKER | {"groups": "worker.groups"} | _LOG,
    # The groups of `up` are those of its dispatcher and of its worker, which have settings of their own.
    "up": _WORKER | _LOG,
    "dispatcher": _DISPATCHER | _LOG,
    # Its slots and its strategy are those of the main processes; it stays until its tasks have ended.
    "heartbeat": {name: _WORKER[name] for name in ("app_name", "executor", "lease", "max_memory")} | _LOG,
    "reaper": _LOG,
    "scheduler": {"app_name": "app.name"} | _LOG,
    "web": {
        "app_name": "app.name",
        "host": "web.host",
        "port": "web.port",
        "token_file": "web.token_file",
        "allow_host": "web.hosts",
        "read_only": "web.read_only",
    }
    | _LOG,
}


class _SettingType(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """Reads an option as the configuration reads a variable."""

    def __init__(self, setting: Setting) -> None:
        self.name = setting.key
        self._kind = setting.kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._kind.read_text(value)
        except BadValue as error:
            self.fail(f"{value!r}: {error}", param, ctx)


def setting_option(option: str, name: str, **attributes: Any) -> Callable[[F], F]:
    """An option with the type and the default of the setting `name`."""
    (setting,) = (setting for setting in all_settings() if setting.name == name)
    return click.option(option, type=_SettingType(setting), default=setting.default, **attributes)


def default_maps(config: Config) -> dict[str, dict[str, Any]]:
    """The defaults of every command, as click takes them."""
    return {command: config.default_map(**parameters) for command, parameters in _SETTINGS.items()}


def tick_options(config: Config, lease_seconds: float | None = None) -> TickOptions:
    """What a dispatcher takes from the configuration, besides its groups. `lease_seconds`: of the worker beside it."""
    settings = config.dispatcher
    return {
        "batch_limit": settings.batch_limit,
        "batch_limits": settings.batch_limits,
        "lock_seconds": settings.lock_seconds or lease_seconds or config.worker.lease_seconds,
        "ticks_kept": settings.ticks_kept,
    }


def reaper_options(config: Config) -> ReaperOptions:
    """What a reaper takes from the configuration."""
    settings = config.reaper
    return {
        "round_seconds": settings.round_seconds,
        "unclaimed_seconds": settings.unclaimed_seconds,
        "stalled_seconds": settings.stalled_seconds,
        "dead_worker_retention_seconds": settings.dead_worker_retention_seconds,
        "rescues": settings.rescues,
    }


def scheduler_options(config: Config) -> Options:
    """What a scheduler takes from the configuration, and the checks of expressions."""
    from stepwell.schedule.options import Options

    settings = config.scheduler
    return Options(
        poll_interval_seconds=settings.poll_interval_seconds,
        max_sleep_seconds=settings.max_sleep_seconds,
        min_cron_interval_seconds=settings.min_cron_interval_seconds,
        misfire_grace_seconds=settings.misfire_grace_seconds,
    )


def retention_options(config: Config, options: RetentionOptions) -> RetentionOptions:
    """What the configuration sets; what it leaves out is as the app says."""
    settings = config.retention
    given = {"keep_days": settings.keep_days, "archive": settings.archive, "archive_days": settings.archive_days}
    given |= {"key_days": settings.key_days, "batch": settings.batch, "pause_seconds": settings.pause_seconds}
    left_out = {name for name in ("batch", "pause_seconds") if config.origin(f"retention.{name}").kind == "default"}
    return replace(options, **{k: v for k, v in given.items() if v is not None and k not in left_out})  # type: ignore[arg-type]


def non_default_settings(config: Config) -> list[dict[str, str]]:
    """The settings that differ from their defaults, each with its value and where it was set."""
    return [
        {
            "setting": setting.name,
            "value": setting.show(config.value(setting.name)),
            "origin": str(config.origin(setting.name)),
        }
        for setting in all_settings()
        if config.value(setting.name) != setting.default
    ]
