"""Building a worker from its settings, with the executor and the heartbeat that they require."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Self, TypedDict, get_args

from stepwell.define.registry import Registry
from stepwell.enqueue.declared_actions import record_actions
from stepwell.model.errors import StepwellError
from stepwell.model.leases import LEASE_SECONDS, SHORTEST_LEASE_SECONDS
from stepwell.model.suggest import hint, refuse_unknown, warn_of_unknown_queue
from stepwell.run.executors import Executor, ExecutorKind
from stepwell.run.executors.loop import LoopExecutor
from stepwell.run.executors.processes import ProcessExecutor
from stepwell.run.executors.threads import ThreadExecutor
from stepwell.run.finish import MAX_RESCUES, Finisher
from stepwell.run.grace import GRACE_SECONDS
from stepwell.run.heartbeat import Heartbeat, ProcessHeartbeat, ThreadHeartbeat
from stepwell.run.worker import Worker
from stepwell.run.worker_row import default_queues
from stepwell.service.logs import LogOptions
from stepwell.share.limits import Limits
from stepwell.share.strategy import Strategy
from stepwell.store import Database
from stepwell.store.engine import creation

MAX_SECONDS: Final = 86_400.0  # a day: more is a mistake in the unit


class WorkerOptions(TypedDict, total=False):
    """The keyword arguments of `app.worker(…)` and `app.run(…)`."""

    queues: Sequence[str]
    groups: Collection[str]
    slots: int
    executor: ExecutorKind
    app_name: str | None
    max_memory: int
    strategy: Strategy | None
    alive_seconds: float
    grace_seconds: float
    rescues: int
    logs: LogOptions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedWorkerOptions:
    """The same, validated and with their defaults.

    With `executor="process"` every slot imports the app by its name (`app_name`, as `module:variable`; detected if not
    given), and `max_memory` limits the address space of each slot, in bytes. `strategy` divides the free slots:
    oldest first (`SortByDateCreated`), or by the weights of the jobs (`DivideTotalValueEqually`).
    """

    queues: Sequence[str] = ()  # empty: the built-in ones, the host's, and those that the app declares
    groups: Collection[str] = ()  # claim only steps of these; empty: all
    slots: int = 8
    executor: ExecutorKind = "thread"
    app_name: str | None = None
    max_memory: int = 0  # no limit
    strategy: Strategy | None = None
    alive_seconds: float = LEASE_SECONDS
    grace_seconds: float = GRACE_SECONDS
    rescues: int = MAX_RESCUES  # of steps whose slot died; the next death fails them
    logs: LogOptions | None = None  # of the processes of slots; None: as the app configures them

    @classmethod
    def of(cls, options: WorkerOptions) -> Self:
        """Rejects unknown options."""
        refuse_unknown("worker", options, cls.__slots__)
        return cls(**options)

    def __post_init__(self) -> None:
        if self.executor not in get_args(ExecutorKind):
            kinds = get_args(ExecutorKind)
            raise StepwellError(f"executor={self.executor!r}: unknown; {hint(self.executor, kinds, 'executors')}")
        if type(self.slots) is not int or self.slots < 1:
            raise StepwellError(f"slots={self.slots!r}: expected a whole number of at least 1")
        for name, least in (("alive_seconds", SHORTEST_LEASE_SECONDS), ("grace_seconds", 0.0)):
            seconds = getattr(self, name)
            if not least <= seconds <= MAX_SECONDS:  # also rejects NaN
                raise StepwellError(f"{name}={seconds!r}: expected {least:g} to {MAX_SECONDS:g} seconds")


@dataclass(frozen=True, slots=True)
class WorkerBuilder:
    """What all workers of an app have in common."""

    database: Database
    jobs: Registry
    finisher: Finisher
    limits: Limits
    declared_queues: Callable[[], frozenset[str]]
    find_app_name: Callable[[], str]

    def build(self, settings: CheckedWorkerOptions) -> Worker:
        """A registered worker; what its jobs declare applies from now on."""
        executor = self._executor(settings)
        queues = [settings.queues] if isinstance(settings.queues, str) else settings.queues
        record_actions(self.database, self.jobs)
        for queue in queues:
            self._warn_of_unknown(queue)
        self.limits.apply_declared({job.action: job.policy.max_running for job in self.jobs})
        return Worker(
            self.database,
            self.jobs,
            self.finisher,
            executor,
            self._heartbeat(settings),
            queues=queues or default_queues(self.declared_queues()),
            groups=[settings.groups] if isinstance(settings.groups, str) else settings.groups,
            strategy=settings.strategy,
            alive_seconds=settings.alive_seconds,
            grace_seconds=settings.grace_seconds,
        )

    def _warn_of_unknown(self, queue: str) -> None:
        declared = self.declared_queues()
        if queue not in declared:
            known = declared | set(self.database.read(creation.queue_names)) | set(default_queues(declared))
            warn_of_unknown_queue(queue, known, "this worker finds no steps in it until the queue is declared")

    def _executor(self, settings: CheckedWorkerOptions) -> Executor:
        if settings.executor != "process":
            kind = ThreadExecutor if settings.executor == "thread" else LoopExecutor
            return kind(self.database, self.jobs, self.finisher, settings.slots)
        if not self.database.is_shared:
            raise StepwellError(
                "an in-memory database is visible to this process only, so executor='process' cannot run its steps: "
                "use executor='thread' or a database file"
            )
        app_name = settings.app_name or self.find_app_name()
        return ProcessExecutor(
            self.database, self.finisher, app_name, settings.slots, settings.max_memory, settings.rescues, settings.logs
        )

    def _heartbeat(self, settings: CheckedWorkerOptions) -> Heartbeat:
        """A separate process if jobs could block the threads of the worker's process."""
        if settings.executor == "process" or not self.database.is_shared:
            return ThreadHeartbeat()
        return ProcessHeartbeat(self.database.url)
