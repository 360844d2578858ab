"""Every setting: its section, type, default and meaning. A feature adds its struct here and one line to `Sections`."""

# ruff: noqa: RUF009 - `setting` makes a field, as `dataclasses.field` does

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from stepwell.model.leases import SHORTEST_LEASE_SECONDS
from stepwell.service.config.kinds import Kind
from stepwell.service.config.names import Names, PerName
from stepwell.service.config.numbers import Days, Seconds, Size, WholeNumber
from stepwell.service.config.setting import Setting, setting, settings_of
from stepwell.service.config.words import Choice, FilePath, Flag, Text
from stepwell.service.logs.setup import FormatName

ExecutorName: TypeAlias = Literal["process", "thread", "async"]
StrategyName: TypeAlias = Literal["oldest-first", "by-weight"]
LevelName: TypeAlias = Literal["debug", "info", "warning", "error"]

_EXECUTOR: Final[Kind[ExecutorName]] = Choice(get_args(ExecutorName))
_STRATEGY: Final[Kind[StrategyName]] = Choice(get_args(StrategyName))
_LEVEL: Final[Kind[LevelName]] = Choice(get_args(LevelName))
_FORMAT: Final[Kind[FormatName]] = Choice(get_args(FormatName))
_DAY: Final = 86_400.0  # more is a mistake in the unit


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSettings:
    """The database that holds the steps."""

    url: str = setting(
        "sqlite:///stepwell.db",
        Text(r"(sqlite|postgres|postgresql):\S.*", "a URL like sqlite:///file.db or postgresql://host/name"),
        "The database, for commands without an app. An app has its own URL.",
        constant="cli.target:DEFAULT_URL",
        variable="STEPWELL_DB",
        secret=True,
    )
    max_connections: int = setting(
        8,
        WholeNumber(2),
        "Connections that the process of a command opens to PostgreSQL, at most. Slots have their own.",
        constant="store.postgres.connections:MAX_CONNECTIONS",
    )
    idle_seconds: float | None = setting(
        None,
        Seconds(0.1, _DAY),
        "Time after which PostgreSQL ends a transaction whose process has stopped responding. Unset: a third of the "
        "lease, at least 1.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSettings:
    """The app to run."""

    name: str | None = setting(
        None,
        Text(r"[^\s:]+:[^\s:]+", "module:variable, like shop.jobs:app"),
        "The app with the jobs, as `module:variable`.",
        variable="STEPWELL_APP",
    )
    environment: str | None = setting(
        None,
        Text(r"\S+", "the name of an environment, like production"),
        "The environment whose overrides apply to the workflows that this process starts. Unset: none.",
        variable="STEPWELL_ENV",
    )
    queues: tuple[str, ...] = setting(
        (), Names(), "Queues in addition to default, priority, candles, indicators and one per host."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The worker of `stepwell worker` and `stepwell up`."""

    slots: int | None = setting(
        None, WholeNumber(1), "Number of steps that run at once. Unset: one per core, at least 2."
    )
    executor: ExecutorName = setting(
        "process",
        _EXECUTOR,
        "Where steps run: `process` (one per slot), `thread`, or `async` (one event loop).",
    )
    queues: tuple[str, ...] = setting(
        (), Names(), "Queues to serve, in order of preference. Empty: all, without preference."
    )
    groups: tuple[str, ...] = setting((), Names(), "Groups whose steps it claims. Empty: all.")
    strategy: StrategyName = setting(
        "oldest-first",
        _STRATEGY,
        "Which steps get free slots: `oldest-first`, or `by-weight` for a share per job.",
    )
    lease_seconds: float = setting(
        30.0,
        Seconds(SHORTEST_LEASE_SECONDS, _DAY),
        "Time without a heartbeat after which a worker counts as dead and its steps are recovered.",
        constant="model.leases:LEASE_SECONDS",
    )
    grace_seconds: float = setting(
        30.0,
        Seconds(0, _DAY),
        "Time that running steps get to finish after a stop signal.",
        constant="run.worker:GRACE_SECONDS",
    )
    max_memory: int = setting(
        0, Size(), "Address space limit of each slot's process (executor `process`). 0: no limit."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherSettings:
    """What `stepwell dispatcher`, `stepwell dispatch` and `stepwell up` dispatch with."""

    groups: tuple[str, ...] = setting((), Names(), "Groups to dispatch. Empty: all.")
    batch_limit: int = setting(
        512,
        WholeNumber(1),
        "Maximum number of steps that one tick of a group dispatches.",
        constant="dispatch.tick:BATCH_LIMIT",
    )
    batch_limits: Mapping[str, int] = setting(
        {}, PerName(WholeNumber(1)), "The same for individual groups: a table of groups and numbers."
    )
    lock_seconds: float | None = setting(
        None,
        Seconds(SHORTEST_LEASE_SECONDS, _DAY),
        "Time after which another dispatcher takes over the groups of one that died. Unset: the worker's lease.",
    )
    sweep_seconds: float = setting(
        300.0, Seconds(1), "Time between two sweeps.", constant="dispatch.sweep_part:SWEEP_SECONDS"
    )
    ticks_kept: int = setting(
        1_000, WholeNumber(1), "Number of ticks per group to keep in the tick log.", constant="dispatch.tick:TICKS_KEPT"
    )

    def batch_limit_of(self, group: str) -> int:
        """The limit of this group."""
        return self.batch_limits.get(group, self.batch_limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaperSettings:
    """The reaper of `stepwell reaper` and `stepwell up`, which recovers the steps of dead workers."""

    round_seconds: float = setting(
        5.0, Seconds(0.1, _DAY), "Time between two rounds.", constant="operate.reaper:ROUND_SECONDS"
    )
    unclaimed_seconds: float = setting(
        300.0,
        Seconds(1),
        "Time after which a dispatched step that was not claimed returns to Pending.",
        constant="operate.reaper:UNCLAIMED_SECONDS",
    )
    stalled_seconds: float = setting(
        60.0,
        Seconds(1),
        "Time without progress, despite work and a free slot, after which a group is reported as stalled.",
        constant="operate.reaper:STALLED_SECONDS",
    )
    dead_worker_retention_seconds: float = setting(
        300.0,
        Seconds(0),
        "How long the rows of dead workers are kept.",
        constant="operate.reaper:DEAD_WORKER_RETENTION_SECONDS",
    )
    rescues: int = setting(
        3,
        WholeNumber(0),
        "Deaths in a row, of its worker or slot, from which a step is rescued; the next one fails it.",
        constant="run.finish:MAX_RESCUES",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """The scheduler of `stepwell scheduler` and `stepwell up`; `config/dispatcher.yaml` may have the first three."""

    poll_interval_seconds: float = setting(
        60.0,
        Seconds(0.1, _DAY),
        "Time between two looks at the schedules, if nothing is due before.",
        constant="schedule.options:POLL_INTERVAL_SECONDS",
    )
    max_sleep_seconds: float = setting(
        300.0,
        Seconds(0.1, _DAY),
        "The longest time without a look, if that is shorter.",
        constant="schedule.options:MAX_SLEEP_SECONDS",
    )
    min_cron_interval_seconds: float = setting(
        60.0,
        Seconds(1),
        "The shortest time between two slots of a schedule; an expression with a shorter one is refused.",
        constant="schedule.options:MIN_CRON_INTERVAL_SECONDS",
    )
    misfire_grace_seconds: float | None = setting(
        None,
        Seconds(0),
        "Age from which a slot counts as missed (`misfire`). Unset: twice the poll interval.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """How long settled workflows are kept: by `stepwell up`, `stepwell prune` and `stepwell archive`."""

    keep_days: float | None = setting(
        None,
        Days(),
        'Days after its end for which a workflow is kept; `"forever"` keeps everything. Unset: as the app says, else '
        "30.",
    )
    archive: bool | None = setting(
        None,
        Flag(),
        "Afterwards, `true` moves it to the table `steps_archive` and `false` deletes it. Unset: as the app says, else "
        "`false`.",
    )
    archive_days: float | None = setting(
        None, Days(), "Days that it stays in the archive. Unset: as the app says, else 365."
    )
    key_days: float | None = setting(
        None,
        Days(),
        "Days for which an idempotency key, or the identity of a workflow, finds the first step or workflow: those are "
        "kept as long. Unset: as the app says, else `keep_days`.",
    )
    batch: int = setting(
        1_000,
        WholeNumber(1),
        "Steps that are looked at, and at most removed, in one transaction.",
        constant="operate.retention.options:BATCH",
    )
    pause_seconds: float = setting(
        600.0,
        Seconds(0.1),
        "Time between two passes over what is old enough.",
        constant="operate.retention.options:PAUSE_SECONDS",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """The dashboard and the HTTP API of `stepwell web` and `stepwell up`."""

    host: str = setting(
        "127.0.0.1",
        Text(r"[\w.:-]+", "an address like 127.0.0.1"),
        "The address to listen on. Any other than this machine's own needs a token.",
        constant="web.server:HOST",
    )
    port: int = setting(
        7837, WholeNumber(0, 65_535), "The port to listen on. 0: any free one.", constant="web.server:PORT"
    )
    token: str | None = setting(
        None,
        Text(r"[!-~]{16,}", "at least 16 printable characters without blanks"),
        "The token that programs send as `Authorization: Bearer …`, with all rights. Unset: one is made at the start.",
        secret=True,
    )
    token_file: Path | None = setting(
        None,
        FilePath(),
        "A file with tokens: `NAME ROLE TOKEN` in each line, with the role read, operate or admin.",
    )
    hosts: tuple[str, ...] = setting(
        (), Names(), "Host names that clients may use besides those of this machine, like the name of a proxy."
    )
    read_only: bool = setting(False, Flag(), "Whether everything that changes something is refused.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionSettings:
    """What is hidden where arguments, results and logs are shown."""

    names: tuple[str, ...] = setting(
        (), Names(), "Keys whose values are secret, besides `password`, `token`, `secret`, `api_key` and such."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Logging."""

    file: Path | None = setting(
        None,
        FilePath(),
        "A file for the log of `dispatcher`, `worker`, `reaper`, `scheduler` and `up`, like `logs/dispatcher.log`. "
        "Unset: no file.",
    )
    format: FormatName = setting("text", _FORMAT, "Lines of `text`, or a `json` object per line.")
    level: LevelName = setting(
        "warning",
        _LEVEL,
        "What `dispatcher`, `worker`, `reaper`, `scheduler` and `up` log to stderr; `-v` means `info`.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """The sections: `[name]` in the file is the field `name` here."""

    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    app: AppSettings = field(default_factory=AppSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    dispatcher: DispatcherSettings = field(default_factory=DispatcherSettings)
    reaper: ReaperSettings = field(default_factory=ReaperSettings)
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    web: WebSettings = field(default_factory=WebSettings)
    redaction: RedactionSettings = field(default_factory=RedactionSettings)
    log: LogSettings = field(default_factory=LogSettings)


@cache
def sections() -> Mapping[str, type]:
    """The struct of each section, by its name."""
    return {section.name: section.default_factory for section in fields(Sections)}  # type: ignore[misc]


@cache
def all_settings() -> tuple[Setting, ...]:
    """Every setting of every section, in their order."""
    return tuple(made for section, struct in sections().items() for made in settings_of(section, struct))
