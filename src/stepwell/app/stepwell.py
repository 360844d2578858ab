"""The app: one object with a database, its jobs and everything one can do with steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from stepwell.app.acting import Acting
from stepwell.app.attached import Attached
from stepwell.app.enqueuing import Enqueuing
from stepwell.define.decorator import JobDecorator
from stepwell.define.registry import Registry
from stepwell.enqueue.declared_actions import record_actions
from stepwell.enqueue.declared_queues import DeclaredQueues
from stepwell.events import Events
from stepwell.events.subscribers import KEEP_UP_SECONDS
from stepwell.model.clock import Clock, SystemClock
from stepwell.model.errors import StepwellError
from stepwell.model.once import once
from stepwell.model.redaction import shown_url
from stepwell.model.secrets import Redaction
from stepwell.model.states import State
from stepwell.model.suggest import refuse_unknown
from stepwell.operate.breaker import Breaker
from stepwell.run.current import RunningSteps
from stepwell.schedule.options import Options as SchedulerOptions
from stepwell.service.locate import Loadable, load_app, module_name_of, name_of
from stepwell.share.limits import Limits
from stepwell.store import Database
from stepwell.store.migrate import ensure_schema, migrate

if TYPE_CHECKING:
    from stepwell.dispatch.dispatcher import Dispatcher
    from stepwell.dispatch.tick import TickOptions, TickReport
    from stepwell.enqueue.create import Creator
    from stepwell.look.figures import Figures
    from stepwell.look.lists import Lists
    from stepwell.look.reader import Reader
    from stepwell.operate.actions import Actions
    from stepwell.operate.operations import Operations
    from stepwell.operate.reaper import Reaper, ReaperOptions
    from stepwell.operate.retention import Retention, RetentionOptions
    from stepwell.parts import Parts
    from stepwell.processes.engine import ProcessEngine
    from stepwell.processes.processes import MainProcesses
    from stepwell.run.build import WorkerOptions
    from stepwell.run.finish import Finisher
    from stepwell.run.inline import InlineRunner
    from stepwell.run.running import RunningStep
    from stepwell.run.worker import Worker
    from stepwell.schedule.declaring import CronDecorator
    from stepwell.schedule.engine import ScheduleEngine
    from stepwell.schedule.schedules import Schedules
    from stepwell.service.background import Background
    from stepwell.service.crew import Crew
    from stepwell.workflow.engine import WorkflowEngine
    from stepwell.workflow.workflows import Workflows

Watch = Callable[["RunningStep", State | None], None]


class Stepwell(Enqueuing, Acting, Loadable):
    """Durable steps in one database: `sqlite:///file.db`, `sqlite://` (in memory) or `postgresql://…`.

    >>> app = Stepwell("sqlite://")
    >>> @app.job()
    ... def double(number: int) -> int:
    ...     return 2 * number
    >>> step = double.enqueue(21)
    >>> app.run_until_idle()
    1
    >>> app.step(step).response
    42

    `queues` are queues in addition to the built-in ones; those in the settings of jobs need not be repeated. `name`
    identifies the app among those that share a database: the schedules that its code declares belong to it.
    `secret_names` are keys of arguments and results whose values are never shown, besides `password`, `token` and such.
    `retention` says how long settled workflows are kept: 30 days, if it is left out.

    Making one touches nothing: it connects, and makes sure of the schema, on first use. A process that is forked later
    connects for itself.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        queues: Iterable[str] = (),
        secret_names: Iterable[str] = (),
        clock: Clock | None = None,
        migrate_schema: bool = False,
        retention: RetentionOptions | None = None,
    ) -> None:
        self._name = name
        self.jobs = Registry()
        self.job = JobDecorator(self)
        self.queues = DeclaredQueues(queues, self.jobs)
        self.redaction = Redaction(secret_names)
        self.events = Events()
        self.scheduler_options = SchedulerOptions()
        self._retention = retention
        self._migrates = migrate_schema
        self._crews: list[Crew] = []
        self._attached = Attached(self, url, clock or SystemClock(), self._prepare)

    # features: each, and the code behind it, is loaded on first use ----------------------------------------

    @once
    def workflows(self) -> Workflows:
        """The declared workflows: `app.workflows("shop")` is a namespace."""
        from stepwell.workflow.workflows import Workflows

        return Workflows(self)

    @once
    def environment(self) -> str | None:
        """The environment whose overrides of workflows apply, as configured; commands set what they have read."""
        from stepwell.service.config import load_setting

        name: str | None = load_setting("app.environment")
        return name

    @once
    def schedules(self) -> Schedules:
        """The schedules of the database."""
        from stepwell.schedule.schedules import Schedules

        return Schedules(self)

    @once
    def cron(self) -> CronDecorator:
        """`@app.cron("0 4 * * *")` declares a schedule."""
        from stepwell.schedule.declaring import CronDecorator

        return CronDecorator(self)

    @once
    def main_processes(self) -> MainProcesses:
        """The main processes and their heartbeats."""
        from stepwell.processes.processes import MainProcesses

        return MainProcesses(self)

    @once
    def parts(self) -> Parts:
        """What runs for long beside a worker."""
        from stepwell.parts import Parts

        return Parts(self)

    @once
    def retention_options(self) -> RetentionOptions:
        """How long settled workflows are kept, as the code of the app says."""
        from stepwell.operate.retention import RetentionOptions

        return RetentionOptions() if self._retention is None else self._retention

    def _has_used(self, feature: Literal["main_processes", "schedules", "workflows"]) -> bool:
        """Whether anything has asked for it, and may have declared something with it."""
        return feature in vars(self)

    # what belongs to one database ---------------------------------------------------------------------------

    @property
    def database(self) -> Database:
        return self._attached.database

    @property
    def clock(self) -> Clock:
        return self._attached.database.clock

    @property
    def breaker(self) -> Breaker:
        """The switch that stops the dispatch of Pending steps."""
        return self._attached.breaker

    @property
    def limits(self) -> Limits:
        """How many steps may run at once."""
        return self._attached.limits

    @property
    def running_steps(self) -> RunningSteps:
        """The runs of this process."""
        return self._attached.running_steps

    @property
    def _creator(self) -> Creator:
        return self._attached.creator

    @property
    def _finisher(self) -> Finisher:
        return self._attached.finisher

    @property
    def retention(self) -> Retention:
        """Deletes or archives settled workflows."""
        return self._attached.retention

    @property
    def reader(self) -> Reader:
        """Reads steps and everything about them."""
        return self._attached.reader

    @property
    def figures(self) -> Figures:
        """Counts, throughput and times."""
        return self._attached.figures

    @property
    def lists(self) -> Lists:
        """Pages of steps, failures and transitions."""
        return self._attached.lists

    @property
    def actions(self) -> Actions:
        """Operator actions on single steps."""
        return self._attached.actions

    @property
    def operations(self) -> Operations:
        """Operator actions in bulk: previews, executions, undo."""
        return self._attached.operations

    @property
    def workflow_engine(self) -> WorkflowEngine:
        return self._attached.workflow_engine

    @property
    def process_engine(self) -> ProcessEngine:
        return self._attached.process_engine

    @property
    def schedule_engine(self) -> ScheduleEngine:
        return self._attached.schedule_engine

    # open and close ---------------------------------------------------------------------------------------

    @contextmanager
    def bound_to(self, url: str, clock: Clock | None = None) -> Iterator[Self]:
        """Use another database inside a `with` block, with the same jobs, workflows and subscribers.

        `stepwell.testing.bound` is this with a manual clock. The database is closed at the end, and subscribers that
        were added meanwhile are removed.
        """
        attached, events, options = self._attached, self.events, self.scheduler_options
        self.events = events.copy()
        try:
            self._attached = Attached(self, url, clock or SystemClock(), self._prepare)
            try:
                yield self
            finally:
                self.close()
        finally:
            self._attached, self.events, self.scheduler_options = attached, events, options

    def open(self) -> Self:
        """Connect and check the schema now; otherwise the first use does. After `close`, this opens it again."""
        self.database.open()
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return load_app, (name_of(self),)  # another process imports it

    def _prepare(self, database: Database) -> None:
        if self._migrates:
            migrate(database)
        else:
            ensure_schema(database)
        self.queues.create(database)

    def close(self) -> None:
        """Deliver the last events and close the database; then any use raises `AppClosed`, until `open` opens it."""
        self.events.flush()
        self.database.close()

    @property
    def name(self) -> str:
        """The given name, or else the `module:variable` of the app."""
        if self._name is None:
            self._name = module_name_of(self)
        return self._name

    def import_name(self) -> str:
        """The `module:variable` under which another process can import this app."""
        return name_of(self)

    def has_name(self) -> bool:
        """Whether it has a name, or is a variable of a module."""
        try:
            return bool(self.name)
        except StepwellError:
            return False

    def __repr__(self) -> str:
        return f"<Stepwell {shown_url(self.database.url)}>"

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *error: object) -> None:
        self.close()

    # dispatch and run -----------------------------------------------------------------------------------

    def dispatcher(self, groups: Collection[str] | None = None, **options: Unpack[TickOptions]) -> Dispatcher:
        """A dispatcher for all groups, or for some."""
        from stepwell.dispatch.dispatcher import Dispatcher
        from stepwell.dispatch.tick import TickOptions

        refuse_unknown("dispatcher", options, TickOptions.__annotations__)
        return Dispatcher(self.database, self._creator, groups, **options)

    def dispatch_once(self, group: str | None = None) -> list[TickReport]:
        """One tick of every group that has work, or of one group."""
        return self.dispatcher(None if group is None else [group]).round()

    def inline_runner(self, *, queues: Sequence[str] = (), slots: int = 8, watch: Watch | None = None) -> InlineRunner:
        """A worker that runs steps in the calling thread."""
        from stepwell.run.inline import InlineRunner
        from stepwell.run.worker_row import default_queues

        self._check_workflows()
        queues = queues or default_queues(self.queues())
        return InlineRunner(self.database, self.jobs, self._finisher, queues, slots, watch)

    def record_jobs(self) -> None:
        """Record what the jobs of this app declare, for programs that create steps without their code.

        Every worker does it when it starts.
        """
        record_actions(self.database, self.jobs)

    def reaper(self, **options: Unpack[ReaperOptions]) -> Reaper:
        """Returns the steps of dead workers to Pending."""
        from stepwell.operate.reaper import Reaper, ReaperOptions

        refuse_unknown("reaper", options, ReaperOptions.__annotations__)
        return Reaper(self.database, self.events, **options)

    def worker(self, **settings: Unpack[WorkerOptions]) -> Worker:
        """A worker whose slots are threads of this process, separate processes, or tasks of one event loop."""
        from stepwell.run.build import CheckedWorkerOptions

        self._check_workflows()
        self.reconcile_schedules()
        if self.has_main_processes:
            self.main_processes.apply_to_workers()
            if settings.get("strategy") is None:
                settings["strategy"] = self.main_processes.strategy()
        return self._attached.workers.build(CheckedWorkerOptions.of(settings))

    def reconcile_schedules(self) -> None:
        """Write the schedules that the code declares, and disable those that it no longer declares: once."""
        from stepwell.store.engine.schedules import newest_code

        declares = self._has_used("schedules")
        if declares or (self.has_name() and self.database.read(lambda tx: newest_code(tx, app=self.name)) is not None):
            self.schedules.reconcile_once()

    @property
    def has_main_processes(self) -> bool:
        return self._has_used("main_processes") and self.main_processes.is_configured

    def _check_workflows(self) -> None:
        if self._has_used("workflows"):
            self.workflows.check()

    def run(self, **worker: Unpack[WorkerOptions]) -> None:
        """Dispatch, run and reap in this process until Ctrl-C, SIGTERM or `stop()`, with the arguments of `worker`."""
        from stepwell.service.crew import Crew

        with Crew(self.parts.all(self.worker(**worker))) as crew:
            self._crews.append(crew)
            try:
                crew.run()
            finally:
                self._crews.remove(crew)
                self.database.limit_waiting()  # no part has to end any more

    def running(self, **worker: Unpack[WorkerOptions]) -> Background:
        """The same in threads, during a `with` or `async with` block: for a program with a main loop of its own."""
        from stepwell.service.background import Background
        from stepwell.service.crew import Crew

        return Background(Crew(self.parts.all(self.worker(**worker))))

    def stop(self) -> None:
        """Stop every `run` of this app gracefully, like a signal; call it from another thread or from a job.

        A second call, at least half a second later, ends running steps at once.
        """
        for crew in self._crews:
            crew.stop()

    def run_until_idle(self, *, slots: int = 8, watch: Watch | None = None, max_rounds: int = 100_000) -> int:
        """Dispatch and run inline until no step can run now; returns the number of runs."""
        from stepwell.run.inline import InlineRunner
        from stepwell.run.worker_row import default_queues

        self._check_workflows()
        queues = default_queues(self.queues())
        runner = InlineRunner(self.database, self.jobs, self._finisher, queues, slots, watch, waits_for_ticks=False)
        try:
            return runner.run_until_idle(self.dispatcher(), max_rounds)
        finally:
            runner.close()
            self.events.flush(KEEP_UP_SECONDS)
