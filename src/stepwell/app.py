"""The app: one object with a database, its jobs and everything one can do with steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Self, TypeVar, Unpack

from stepwell.define.decorator import JobDecorator
from stepwell.define.definition import JobDefinition
from stepwell.define.drafts import NewStep, all_drafts
from stepwell.define.registry import Registry
from stepwell.dispatch import sweep as sweeping
from stepwell.dispatch.dispatcher import Dispatcher
from stepwell.dispatch.tick import TickOptions, TickReport
from stepwell.enqueue.create import Creator
from stepwell.enqueue.declared_actions import record_actions
from stepwell.enqueue.declared_queues import DeclaredQueues
from stepwell.enqueue.handle import Handle
from stepwell.events import Events
from stepwell.events.subscribers import KEEP_UP_SECONDS
from stepwell.look import explain as explaining
from stepwell.look import past
from stepwell.look.explain import Explanation
from stepwell.look.figures import Figures
from stepwell.look.lists import Lists
from stepwell.look.overview import Stats, WorkerInfo
from stepwell.look.past import WorkflowThen
from stepwell.look.reader import Reader, TreeNode
from stepwell.model.clock import Clock, SystemClock
from stepwell.model.errors import InvalidStep, StepwellError
from stepwell.model.ids import Uuid7Generator
from stepwell.model.redaction import shown_url
from stepwell.model.secrets import Redaction
from stepwell.model.states import State
from stepwell.model.step import Retried, Step, StepRef, Transition
from stepwell.model.suggest import refuse_unknown
from stepwell.operate import invariants
from stepwell.operate.actions import Actions
from stepwell.operate.breaker import Breaker
from stepwell.operate.causes import resolve_causes
from stepwell.operate.fold import fold_all, recount
from stepwell.operate.operations import Operations
from stepwell.operate.reaper import Reaper, ReaperOptions
from stepwell.operate.retention import Retention, RetentionOptions
from stepwell.operate.transition import transition_by_hand
from stepwell.parts import Parts
from stepwell.processes.engine import ProcessEngine
from stepwell.processes.explain import rescheduling
from stepwell.processes.processes import MainProcesses
from stepwell.run.build import WorkerBuilder, WorkerOptions, WorkerSettings
from stepwell.run.current import RunningSteps
from stepwell.run.finish import Finisher
from stepwell.run.inline import InlineRunner
from stepwell.run.running import RunningStep
from stepwell.run.worker import Worker
from stepwell.run.worker_row import default_queues
from stepwell.schedule.declaring import CronDecorator
from stepwell.schedule.engine import ScheduleEngine
from stepwell.schedule.schedules import Schedules
from stepwell.service.background import Background
from stepwell.service.crew import Crew
from stepwell.service.locate import Loadable, load_app, module_name_of, name_of
from stepwell.share.limits import Limits
from stepwell.store import Database, open_database
from stepwell.store.engine.past import StepThen
from stepwell.store.engine.reading import GroupRow, LogLine, TickRow
from stepwell.store.migrate import ensure_schema, migrate
from stepwell.store.on_loop import without_blocking
from stepwell.workflow.engine import WorkflowEngine
from stepwell.workflow.workflows import Workflows

R = TypeVar("R")

AnyStep = Step | StepRef | int | str
Watch = Callable[[RunningStep, State | None], None]


class Stepwell(Loadable):
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
        self.workflows = Workflows(self)
        self.main_processes = MainProcesses(self)
        self.schedules = Schedules(self)
        self.cron = CronDecorator(self)
        self.parts = Parts(self)
        self.retention_options = RetentionOptions() if retention is None else retention
        self._migrates = migrate_schema
        self._crews: list[Crew] = []
        self._attach(url, clock or SystemClock())

    def _attach(self, url: str, clock: Clock) -> None:
        """Build everything that belongs to one database."""
        self.clock = clock
        self.database = open_database(url, self.clock, self._prepare)
        uuids = Uuid7Generator()
        self.breaker = Breaker(self.database)
        self.events.waits = not isinstance(clock, SystemClock)  # a test: events arrive before the next statement
        self.events.follow(self.database.hooks)
        self.limits = Limits(self.database)
        self.running_steps = RunningSteps(self.database, self.jobs, uuids)
        self._creator = Creator(self.database, self.queues, uuids)
        self._finisher = Finisher(self.database, self._creator, self.events)
        self._workers = WorkerBuilder(
            self.database, self.jobs, self._finisher, self.limits, self.queues, lambda: name_of(self)
        )
        self.actions = Actions(self.database)
        self.operations = Operations(self.database, self.actions.steps)
        self.workflow_engine = WorkflowEngine(
            self.database, self._creator, self.jobs, uuids, self.actions, self.operations
        )
        self.process_engine = ProcessEngine(self.database, self._creator, self.jobs, self._finisher, self.events)
        self.schedule_engine = ScheduleEngine(
            self.database,
            self._creator,
            self.jobs,
            self.workflows,
            self.workflow_engine.starter,
            uuids,
            lambda: self.schedules.options,
        )
        self.reader = Reader(self.database)
        self.figures = Figures(self.database)
        self.lists = Lists(self.database)
        self.retention = Retention(self.database, self.retention_options)

    @contextmanager
    def bound_to(self, url: str, clock: Clock | None = None) -> Iterator[Self]:
        """Use another database inside a `with` block, with the same jobs, workflows and subscribers.

        `stepwell.testing.bound` is this with a manual clock. The database is closed at the end, and subscribers that
        were added meanwhile are removed.
        """
        before = self.__dict__.copy()
        self.events = self.events.copy()
        try:
            self._attach(url, clock or SystemClock())
            yield self
        finally:
            if self.database is not before["database"]:
                self.close()
            self.__dict__.update(before)

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

    # enqueue ------------------------------------------------------------------------------------------

    def enqueue(self, action: str, arguments: Any = None, *, connection: Any = None, **settings: Any) -> Handle[Any]:
        """Create one step; `settings` are the fields of `NewStep`.

        If a job of this app has this action, its settings apply and the arguments are checked, as in the job's own
        `enqueue`; any other action is accepted, because another program may run it. With `connection`, a connection of
        `sqlite3` or `psycopg`, or one of SQLAlchemy or Django that uses them, the step is committed or rolled back with
        the caller's transaction.
        """
        draft = self.jobs.draft(action, {} if arguments is None else arguments, settings)
        return self.enqueue_many([draft], connection=connection)[0]

    async def aenqueue(
        self, action: str, arguments: Any = None, *, connection: Any = None, **settings: Any
    ) -> Handle[Any]:
        """The same without blocking an event loop; `connection` may be async."""
        draft = self.jobs.draft(action, {} if arguments is None else arguments, settings)
        return (await self.aenqueue_many([draft], connection=connection))[0]

    def enqueue_job(self, job: JobDefinition[..., R], draft: NewStep) -> Handle[R]:
        """Create one step of a job: what `job.enqueue(…)` does."""
        return self.enqueue_many([draft], connection=job.connection)[0]

    def enqueue_many(self, drafts: Iterable[NewStep], *, connection: Any = None) -> list[Handle[Any]]:
        """Create many steps at once, all or none; they may be each other's parents and dependencies.

        A `NewStep` of a job of this app is treated as in `enqueue`: the arguments are checked, and the job's settings
        apply to fields that are left at their defaults. Children of the running step that calls this are part of its
        result: they are written when its compute ends.
        """
        drafts = [self.jobs.redraft(draft) for draft in all_drafts("enqueue_many", drafts)]
        running = self.running_steps.parent_of(drafts)
        if running is None:
            refs = self._creator.create(drafts, self.database.now(), connection)
        elif connection is None:
            refs = running.add_children(drafts)
        else:
            raise InvalidStep("children of the running step are written when its compute ends: omit `connection`")
        return [Handle(ref, self, self.jobs.get(draft.action)) for ref, draft in zip(refs, drafts, strict=True)]

    async def aenqueue_many(self, drafts: Iterable[NewStep], *, connection: Any = None) -> list[Handle[Any]]:
        """The same without blocking an event loop; `connection` may be async."""
        drafts = all_drafts("aenqueue_many", drafts)
        return await without_blocking(connection, lambda usable: self.enqueue_many(drafts, connection=usable))

    def handle(self, which: AnyStep) -> Handle[Any]:
        """A step that exists, by its id or uuid: to wait for its result, to cancel or to retry it."""
        step = self.step(which)
        return Handle(step.ref, self, self.jobs.get(step.action))

    # dispatch and run -----------------------------------------------------------------------------------

    def dispatcher(self, groups: Collection[str] | None = None, **options: Unpack[TickOptions]) -> Dispatcher:
        """A dispatcher for all groups, or for some."""
        refuse_unknown("dispatcher", options, TickOptions.__annotations__)
        return Dispatcher(self.database, self._creator, groups, **options)

    def dispatch_once(self, group: str | None = None) -> list[TickReport]:
        """One tick of every group that has work, or of one group."""
        return self.dispatcher(None if group is None else [group]).round()

    def inline_runner(self, *, queues: Sequence[str] = (), slots: int = 8, watch: Watch | None = None) -> InlineRunner:
        """A worker that runs steps in the calling thread."""
        self.workflows.check()
        queues = queues or default_queues(self.queues())
        return InlineRunner(self.database, self.jobs, self._finisher, queues, slots, watch)

    def record_jobs(self) -> None:
        """Record what the jobs of this app declare, for programs that create steps without their code.

        Every worker does it when it starts.
        """
        record_actions(self.database, self.jobs)

    def reaper(self, **options: Unpack[ReaperOptions]) -> Reaper:
        """Returns the steps of dead workers to Pending."""
        refuse_unknown("reaper", options, ReaperOptions.__annotations__)
        return Reaper(self.database, self.events, **options)

    def worker(self, **settings: Unpack[WorkerOptions]) -> Worker:
        """A worker whose slots are threads of this process, separate processes, or tasks of one event loop."""
        self.workflows.check()
        self.schedules.reconcile_once()
        self.main_processes.apply_to_workers()
        if settings.get("strategy") is None:
            settings["strategy"] = self.main_processes.strategy()
        return self._workers.build(WorkerSettings.of(settings))

    def run(self, **worker: Unpack[WorkerOptions]) -> None:
        """Dispatch, run and reap in this process until Ctrl-C, SIGTERM or `stop()`, with the arguments of `worker`."""
        with Crew(self.parts.all(self.worker(**worker))) as crew:
            self._crews.append(crew)
            try:
                crew.run()
            finally:
                self._crews.remove(crew)
                self.database.limit_waiting()  # no part has to end any more

    def running(self, **worker: Unpack[WorkerOptions]) -> Background:
        """The same in threads, during a `with` or `async with` block: for a program with a main loop of its own."""
        return Background(Crew(self.parts.all(self.worker(**worker))))

    def stop(self) -> None:
        """Stop every `run` of this app gracefully, like a signal; call it from another thread or from a job.

        A second call, at least half a second later, ends running steps at once.
        """
        for crew in self._crews:
            crew.stop()

    def run_until_idle(self, *, slots: int = 8, watch: Watch | None = None, max_rounds: int = 100_000) -> int:
        """Dispatch and run inline until no step can run now; returns the number of runs."""
        self.workflows.check()
        queues = default_queues(self.queues())
        runner = InlineRunner(self.database, self.jobs, self._finisher, queues, slots, watch, waits_for_ticks=False)
        try:
            return runner.run_until_idle(self.dispatcher(), max_rounds)
        finally:
            runner.close()
            self.events.flush(KEEP_UP_SECONDS)

    # look ---------------------------------------------------------------------------------------------

    def step(self, which: AnyStep) -> Step:
        """One step as it is now."""
        return self.reader.step(which)

    def steps(self, *, limit: int = 50, before: int | None = None, **filters: Any) -> list[Step]:
        """The newest steps that match."""
        return self.reader.steps(limit, before, **filters)

    def is_live(self, relatable: tuple[str, str | int], actions: Collection[str] | None = None) -> bool:
        """Whether a workflow with a step of these actions (or of any) about this object has not ended yet."""
        return self.reader.is_live(relatable, actions)

    def history(self, which: AnyStep) -> list[Transition]:
        """Every change of state of a step."""
        return self.reader.history(which)

    def step_at(self, which: AnyStep, when: datetime) -> StepThen | None:
        """A step as it was at an earlier moment; None before it was created."""
        return past.step_at(self.database, self.step(which).id, when)

    def workflow_at(self, workflow_id: str, when: datetime | None = None) -> WorkflowThen:
        """A workflow, declared or not, and all its steps as they were at an earlier moment.

        Without `when`, as they are: `at` of the result is that moment, by the clock that stamps the history.
        """
        return past.workflow_at(self.database, workflow_id, when)

    def tree(self, which: AnyStep) -> TreeNode:
        """A step with its descendants."""
        return self.reader.tree(which)

    def logs(self, which: AnyStep) -> list[LogLine]:
        """What the code of a step logged (`step.log`)."""
        return self.reader.logs(which)

    def explain(self, which: AnyStep) -> Explanation:
        """Why a step is not running."""
        return explaining.explain(self.database, self.step(which), [*explaining.SOURCES, rescheduling])

    def stats(self) -> Stats:
        """Step counts by state, by readiness and by group."""
        return self.reader.stats()

    def workers(self) -> list[WorkerInfo]:
        """The workers, the lanes they serve and how many steps they run."""
        return self.reader.workers()

    def groups(self) -> list[GroupRow]:
        """The groups with their locks."""
        return self.reader.groups()

    def ticks(self, group: str | None = None, limit: int = 20) -> list[TickRow]:
        """The tick log."""
        return self.reader.ticks(group, limit)

    # act ----------------------------------------------------------------------------------------------

    def retry(self, which: AnyStep, *, who: str, why: str | None = None) -> Retried:
        """Return a step to Pending, now, and the steps that ended because of it to Pending, as they were planned."""
        return self.actions.retry(self.step(which).id, who, why)

    def cancel(self, which: AnyStep, *, who: str, why: str | None = None) -> None:
        """Cancel a step and, in the next ticks, its descendants."""
        self.actions.cancel(self.step(which).id, who, why)

    def skip(self, which: AnyStep, *, who: str, why: str | None = None) -> None:
        """Conclude a step without running it."""
        self.actions.skip(self.step(which).id, who, why)

    def complete(self, which: AnyStep, *, who: str, why: str | None = None, response: Any = None) -> None:
        """Complete a step by hand, with a result."""
        self.actions.complete(self.step(which).id, who, why, response)

    def reset_attempts(self, which: AnyStep, *, who: str, why: str | None = None) -> None:
        """Reset the attempts of a Pending step, and the delay after the last one."""
        self.actions.reset_attempts(self.step(which).id, who, why)

    def transition_to(self, which: AnyStep, state: State, *, who: str, why: str | None = None) -> None:
        """Change the state of a step by hand, as the transition table allows an operator."""
        transition_by_hand(self.actions, self.step(which), state, who, why)

    def pause_workflow(self, which: AnyStep, *, who: str, why: str | None = None) -> None:
        """Hold back the Pending steps of a step's workflow."""
        self.actions.pause_workflow(_workflow_of(self.step(which)), who, why)

    def resume_workflow(self, which: AnyStep, *, who: str, why: str | None = None) -> None:
        """Resume a paused workflow."""
        self.actions.resume_workflow(_workflow_of(self.step(which)), who, why)

    # check --------------------------------------------------------------------------------------------

    def check_invariants(self) -> list[invariants.Violation]:
        """Every violated invariant of this database."""
        return invariants.check_invariants(self.database)

    def sweep(self) -> list[sweeping.Finding]:
        """Check marks and agenda; repairs what is wrong and returns what it repaired."""
        return sweeping.sweep(self.database)

    def fold(self) -> None:
        """Fold the counters and find the causes of cascades now, as a dispatcher does every two seconds."""
        fold_all(self.database)
        while resolve_causes(self.database):
            pass

    def recount(self) -> None:
        """Make the counters anew from the steps."""
        recount(self.database)


def _workflow_of(step: Step) -> str:
    return step.workflow_id or step.uuid
