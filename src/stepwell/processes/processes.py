"""`app.main_processes`: the configuration of main processes, their heartbeats, and what became of their tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from stepwell.model.errors import DatabaseUnavailable, StepwellError
from stepwell.model.suggest import hint
from stepwell.processes.beats import LOGGER, HeartbeatRun, QueueBeat, RescheduleBeat
from stepwell.processes.config import ProcessConfig
from stepwell.processes.main_process import JobFactory, MainProcess, Queuer, TaskFactory
from stepwell.processes.queueing import QUEUE, Queued
from stepwell.processes.shares import Share, shares_of, weights_of
from stepwell.service.part import Part
from stepwell.share.strategies import Strategy
from stepwell.store.engine import processes
from stepwell.store.engine.processes import FailedQueueing, ListedTask

if TYPE_CHECKING:
    from stepwell.app import Stepwell
    from stepwell.run.build import WorkerOptions

KINDS: Final = ("queue", "execute", "reschedule")
# An execute beat stays until its tasks have ended; one that runs for longer than a day is handed back.
_GRACE_SECONDS: Final = 86_400.0


class MainProcesses:
    """The main processes of an app.

    >>> from stepwell import Stepwell
    >>> app = Stepwell("sqlite://")
    >>> @app.job()
    ... def sync() -> None: ...
    >>> processes = app.main_processes.configure({
    ...     "main_processes": {"nightly": {"tasks": [{"class": "sync"}]}},
    ...     "tasks": {"sync": {"class": "sync", "timeout": 60, "cooldown": 5}},
    ... })
    >>> processes.queue("nightly")
    Queued(new=[1], kept=[], passed_over=[])
    >>> app.run_until_idle()
    1
    >>> [(task.task_class, task.state) for task in processes.tasks()]
    [('sync', 'completed')]
    """

    def __init__(self, app: Stepwell) -> None:
        self._app = app
        self._config: ProcessConfig | None = None
        self.queuer: Queuer | None = None
        self._task_factory: TaskFactory | None = None
        self._logger: logging.Logger = LOGGER

    def configure(
        self,
        config: ProcessConfig | Mapping[str, Any] | str | Path,
        *,
        queuer: Queuer | None = None,
        task_factory: TaskFactory | None = None,
        logger: logging.Logger | None = None,
    ) -> Self:
        """Use this configuration: a `ProcessConfig`, a mapping, or a TOML or YAML file. `queuer` may be set later.

        Without a `task_factory`, the class of a task is the name of a job.
        """
        if isinstance(config, str | Path):
            config = ProcessConfig.load(config)
        elif not isinstance(config, ProcessConfig):
            config = ProcessConfig.of(config)
        self._config = config
        self.queuer = queuer
        self._task_factory = task_factory
        self._logger = logger or LOGGER
        self._app.queues.add([QUEUE])
        return self

    @property
    def is_configured(self) -> bool:
        return self._config is not None

    @property
    def config(self) -> ProcessConfig:
        if self._config is None:
            raise StepwellError(
                "this app has no main processes: call app.main_processes.configure(…) where the app is made"
            )
        return self._config

    @property
    def task_factory(self) -> TaskFactory:
        """Makes tasks of their classes: the configured one, or one that finds the jobs of the app by their names."""
        return self._task_factory or JobFactory(self._app.jobs)

    # heartbeats -------------------------------------------------------------------------------------------

    def heartbeat(self, kind: str, **worker: Unpack[WorkerOptions]) -> HeartbeatRun:
        """The heartbeat of this kind: queue, execute or reschedule; the options of a worker are for `execute`."""
        if kind == "queue":
            return self.queue_heartbeat()
        if kind == "execute":
            return self.execute_heartbeat(**worker)
        if kind == "reschedule":
            return self.reschedule_heartbeat()
        raise StepwellError(f"unknown heartbeat {kind!r}; {hint(kind, KINDS, 'heartbeats')}")

    def queue_heartbeat(self, queuer: Queuer | None = None) -> HeartbeatRun:
        """QUEUE: asks the queuer what to queue, every `sleep_time_seconds`."""
        return HeartbeatRun(lambda: [self._queue_beat(queuer)], self.config.run_time_seconds)

    def execute_heartbeat(self, **worker: Unpack[WorkerOptions]) -> HeartbeatRun:
        """EXECUTE: a worker for tasks, and a dispatcher for those that wait for a delay to end."""
        config = self.config
        options: WorkerOptions = {"slots": config.max_execution_slots, "grace_seconds": _GRACE_SECONDS, **worker}
        options["queues"] = [QUEUE]

        def parts() -> list[Part]:
            made = self._app.worker(**options)
            dispatcher = self._app.dispatcher(lock_seconds=made.row.alive_seconds)
            return [made, *self._app.parts.of_dispatcher(dispatcher)]

        return HeartbeatRun(parts, config.run_time_seconds)

    def reschedule_heartbeat(self) -> HeartbeatRun:
        """RESCHEDULE: makes dead and not_completed tasks new, and does the work of the reaper for everything else."""
        return HeartbeatRun(lambda: [self._reschedule_beat(), self._app.parts.reaper()], self.config.run_time_seconds)

    def parts(self) -> list[Part]:
        """The queue and reschedule beats, to run beside a worker without cron; none without a configuration."""
        if self._config is None:
            return []
        queue: list[Part] = [] if self.queuer is None else [self._queue_beat(None)]
        return [*queue, self._reschedule_beat()]

    def _queue_beat(self, queuer: Queuer | None) -> QueueBeat:
        queuer = queuer or self.queuer
        if queuer is None:
            raise StepwellError("there is no queuer: pass one to app.main_processes.configure(…, queuer=…)")
        engine = self._app.process_engine
        return QueueBeat(engine.queueing, engine.failures, queuer, self.config.sleep_time_seconds, self._logger)

    def _reschedule_beat(self) -> RescheduleBeat:
        rescheduler = self._app.process_engine.rescheduler(self.config.sleep_time_seconds)
        return RescheduleBeat(rescheduler, self._app.database)

    # for workers ------------------------------------------------------------------------------------------

    def strategy(self) -> Strategy | None:
        """The strategy of a worker that names none."""
        return None if self._config is None else self._config.strategy()

    def apply_to_workers(self) -> None:
        """Before a worker starts: the limit of all of them together, and the shares of the jobs that run tasks."""
        if self._config is None:
            return
        slots = self._config.max_execution_slots
        if self._app.limits.all().get(("queue", QUEUE)) != slots:
            self._app.queues.create(self._app.database)  # it may have been opened before `configure`
            self._app.limits.set("queue", QUEUE, slots)
        self._app.jobs.use_weights(weights_of(self._config, self.task_factory))

    # queue and look ---------------------------------------------------------------------------------------

    def queue(self, name: str, data: Any = None, task_factory: TaskFactory | None = None) -> Queued:
        """Queue one main process now; raises `TaskStateError` if the state of a task does not allow it."""
        process = MainProcess.create(self.config, task_factory or self.task_factory, name, data)
        engine = self._app.process_engine
        try:
            return engine.queueing.queue(process)
        except DatabaseUnavailable:
            raise
        except Exception as error:
            engine.failures.record(process.key, error)
            raise

    def reschedule(self) -> None:
        """One reschedule beat, now."""
        self._app.process_engine.rescheduler(0.0).round()

    def tasks(self) -> list[ListedTask]:
        """Every task with its state: new, running, dead, not_completed, error or completed."""
        database = self._app.database
        return database.read(lambda tx: processes.all_tasks(tx, now=database.now()))

    def failed_queueings(self, main_process: str = "", limit: int = 20) -> list[FailedQueueing]:
        """The newest queueings that failed, of one main process (by its key) or of all."""
        return self._app.process_engine.failures.newest(main_process, limit)

    def shares(self, runs: int = 2_000) -> list[Share]:
        """The share of each class: promised by its priority, and delivered among the latest runs."""
        return shares_of(self._app.database, runs)
