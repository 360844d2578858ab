"""The app: one object that ties a database, its jobs and everything one can do with steps together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar, get_args, overload

from stepwell.define.backoff import Backoff
from stepwell.define.drafts import NewStep
from stepwell.define.registry import (
    MAX_NOT_COMPLETED,
    Computes,
    ComputesLater,
    JobDefinition,
    Policy,
    Registration,
    Registry,
    RetryRule,
    known_settings,
)
from stepwell.dispatch import sweep as sweeping
from stepwell.dispatch.dispatcher import Dispatcher
from stepwell.dispatch.dispatcher_part import DispatcherPart
from stepwell.dispatch.sweep_part import SweepPart
from stepwell.dispatch.tick import BATCH_LIMIT, TickReport
from stepwell.enqueue.create import Creator
from stepwell.events import Events
from stepwell.look import explain as explaining
from stepwell.look.explain import Explanation
from stepwell.look.reader import Reader, TreeNode
from stepwell.model.clock import Clock, SystemClock
from stepwell.model.errors import ActionRefused, IllegalTransition, InvalidStep, StepwellError
from stepwell.model.states import State, is_legal
from stepwell.model.step import Step, StepRef, Transition
from stepwell.operate import invariants
from stepwell.operate.actions import Actions
from stepwell.operate.breaker import Breaker
from stepwell.operate.reaper import ROUND_SECONDS, Reaper
from stepwell.operate.reaper_part import ReaperPart
from stepwell.run.executors import Executor, ExecutorKind
from stepwell.run.executors.loop import LoopExecutor
from stepwell.run.executors.processes import ProcessExecutor
from stepwell.run.executors.threads import ThreadExecutor
from stepwell.run.finish import Finisher
from stepwell.run.grace import GRACE_SECONDS
from stepwell.run.heartbeat import Heartbeat, ProcessHeartbeat, ThreadHeartbeat
from stepwell.run.inline import InlineRunner
from stepwell.run.running import RunningStep, running_parent_of
from stepwell.run.worker import Worker
from stepwell.run.worker_row import ALIVE_SECONDS, usual_queues
from stepwell.service.crew import Crew
from stepwell.service.locate import name_of
from stepwell.service.part import Part
from stepwell.share.limits import Limits
from stepwell.share.strategies import DEFAULT_WEIGHT, Priority, Strategy
from stepwell.store import open_database
from stepwell.store.migrate import ensure_schema, is_granted, migrate

P = ParamSpec("P")
R = TypeVar("R")

AnyStep = Step | StepRef | int | str

LONGEST_SECONDS: Final = 86_400.0  # for a worker to be waited for


class Stepwell:
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

    `queues` are names of queues beyond the usual ones; those that jobs name need not be said again.
    """

    def __init__(
        self, url: str, *, queues: Iterable[str] = (), clock: Clock | None = None, migrate_schema: bool = False
    ) -> None:
        self._queues = _queue_names(queues)
        self.clock: Clock = clock or SystemClock()
        self.database = open_database(url, self.clock)
        try:
            if migrate_schema:
                migrate(self.database)
            else:
                ensure_schema(self.database)
            if self._queues and not is_granted():
                self._add_queues()
        except BaseException:
            self.database.close()
            raise
        self.jobs = Registry()
        self.breaker = Breaker(self.database)
        self.events = Events()
        self.limits = Limits(self.database)
        self._creator = Creator(self.database, self._declared_queues)
        self._finisher = Finisher(self.database, self._creator, self.events)
        self._actions = Actions(self.database)
        self._reader = Reader(self.database)
        self._crews: list[Crew] = []

    def _add_queues(self) -> None:
        known = {row["name"] for row in self.database.read(lambda tx: tx.rows("queue_names"))}
        if new := self._queues - known:
            self.database.transact(lambda tx: [tx.change("add_queue", name=queue) for queue in sorted(new)])

    def _declared_queues(self) -> frozenset[str]:
        """The queues that this app names, itself or by its jobs."""
        named = (job.settings.get("queue") for job in self.jobs)
        return self._queues.union(queue for queue in named if isinstance(queue, str) and queue)

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # define -------------------------------------------------------------------------------------------

    @overload
    def job(self, code: Callable[P, ComputesLater[R]], /) -> JobDefinition[P, R]: ...
    @overload
    def job(self, code: Callable[P, Computes[R]], /) -> JobDefinition[P, R]: ...
    @overload
    def job(self, code: Callable[P, Awaitable[R]], /) -> JobDefinition[P, R]: ...
    @overload
    def job(self, code: Callable[P, R], /) -> JobDefinition[P, R]: ...
    @overload
    def job(
        self,
        *,
        name: str | None = None,
        retries: int = 3,
        retry_on: RetryRule = (Exception,),
        backoff: Backoff | None = None,
        max_not_completed: int = MAX_NOT_COMPLETED,
        weight: Priority = DEFAULT_WEIGHT,
        max_running: int | None = None,
        **settings: Any,
    ) -> Registration: ...
    def job(
        self,
        code: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        retries: int = 3,
        retry_on: RetryRule = (Exception,),
        backoff: Backoff | None = None,
        max_not_completed: int = MAX_NOT_COMPLETED,
        weight: Priority = DEFAULT_WEIGHT,
        max_running: int | None = None,
        **settings: Any,
    ) -> Registration | JobDefinition[Any, Any]:
        """Register a function, a coroutine function or a `Job` class as the code of an action (its name, by default).

        `retries` are re-runs beyond the first; `retry_on` says which errors deserve one (types, or a function of
        the error); `backoff` is a number of seconds, a list of them, or a function of the number of the retry (and
        of the error); `weight` is its share of the slots where a strategy divides them; `max_running` how many of its
        steps run at once over all workers; `settings` are the fields of `NewStep` that every step of the job starts
        with: queue, timeout, … (`concurrency_key` may be a function of the arguments). Without settings, `@app.job`
        is enough.
        """
        if isinstance(code, str):
            raise StepwellError(f"app.job({code!r}): the name of a job goes by name, app.job(name={code!r})")
        policy = Policy(retry_on, backoff, max_not_completed, weight, max_running)
        register = Registration(self, name, {"retries": retries, **settings}, policy)
        return register if code is None else register(code)

    # enqueue ------------------------------------------------------------------------------------------

    def enqueue(self, action: str, arguments: Any = None, *, connection: Any = None, **settings: Any) -> StepRef:
        """Create one step; `settings` are the fields of `NewStep`.

        A job of this app brings its own settings and checks the arguments, as its own `enqueue` does; any other action
        is taken as it comes, for another program may know it. With `connection`, an open `sqlite3` or `psycopg`
        connection, the step lives and dies with the caller's transaction.
        """
        arguments = {} if arguments is None else arguments
        if action in self.jobs:
            draft = self.jobs[action].options(**settings).draft_by_name(arguments)
        else:
            draft = NewStep(action=action, arguments=arguments, **known_settings(action, settings))
        return self.enqueue_many([draft], connection=connection)[0]

    def enqueue_many(self, drafts: Iterable[NewStep], *, connection: Any = None) -> list[StepRef]:
        """Create many steps at once, all or none; they may be each other's parents and dependencies.

        A `NewStep` of a job of this app is treated as in `enqueue`: the job checks the arguments, and its settings hold
        for what is left at its default. Children of the step that runs this code are part of its result: they are
        written with the end of its compute.
        """
        drafts = list(map(self.jobs.drafted, drafts))
        running = running_parent_of(drafts, self.database)
        if running is not None:
            if connection is not None:
                raise InvalidStep("children of the step that runs are written with its own end: leave out `connection`")
            return running.keep(drafts)
        return self._creator.create(drafts, self.database.now(), connection)

    # dispatch and run -----------------------------------------------------------------------------------

    def dispatcher(self, groups: Collection[str] | None = None, *, batch_limit: int = BATCH_LIMIT) -> Dispatcher:
        """A dispatcher for all groups or for some."""
        return Dispatcher(self.database, self._creator, groups, batch_limit)

    def dispatch_once(self, group: str | None = None) -> list[TickReport]:
        """One tick of every group that has work, or of one group."""
        return self.dispatcher(None if group is None else [group]).round()

    def inline_runner(
        self,
        *,
        queues: Sequence[str] = (),
        slots: int = 8,
        watch: Callable[[RunningStep, State | None], None] | None = None,
    ) -> InlineRunner:
        """A worker that runs steps in the calling thread."""
        queues = queues or usual_queues(self._declared_queues())
        return InlineRunner(self.database, self.jobs, self._finisher, queues, slots, watch)

    def reaper(self, *, round_seconds: float = ROUND_SECONDS) -> Reaper:
        """Brings back what died."""
        return Reaper(self.database, self.events, round_seconds=round_seconds)

    def worker(
        self,
        *,
        queues: Sequence[str] = (),
        slots: int = 8,
        executor: ExecutorKind = "thread",
        app_name: str | None = None,
        max_memory: int = 0,
        strategy: Strategy | None = None,
        alive_seconds: float = ALIVE_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
    ) -> Worker:
        """A worker with this many slots: threads of this process, processes of their own, or one event loop.

        With `executor="process"` every slot imports the app by its name (`module:variable`; found out if not given),
        and `max_memory` is the address space in bytes that one may use. `strategy` shares the free slots out: oldest
        first (`SortByDateCreated`), or by the weights of the jobs (`DivideTotalValueEqually`).
        """
        _check_worker(executor, slots, alive_seconds, grace_seconds)
        if executor == "process" and not self.database.is_shared:
            raise StepwellError(
                "a database in memory belongs to this process alone, so no other can run its steps: "
                "use executor='thread' or a file"
            )
        heartbeat: Heartbeat = ThreadHeartbeat()
        if executor == "process":
            made: Executor = ProcessExecutor(
                self.database, self._finisher, app_name or name_of(self), slots, max_memory
            )
        else:
            kind = ThreadExecutor if executor == "thread" else LoopExecutor
            made = kind(self.database, self.jobs, self._finisher, slots)
            if self.database.is_shared:
                heartbeat = ProcessHeartbeat(self.database.url)
        queues = ([queues] if isinstance(queues, str) else queues) or usual_queues(self._declared_queues())
        times = {"alive_seconds": alive_seconds, "grace_seconds": grace_seconds}
        self.limits.follow_code({job.action: job.policy.max_running for job in self.jobs})
        return Worker(
            self.database, self.jobs, self._finisher, made, heartbeat, queues=queues, strategy=strategy, **times
        )

    def dispatcher_parts(self, dispatcher: Dispatcher) -> list[Part]:
        """A dispatcher and the sweep of its groups, as parts of a crew."""
        return [DispatcherPart(dispatcher, self.database), SweepPart(self.database, dispatcher.groups)]

    def reaper_part(self) -> Part:
        """A reaper, as part of a crew."""
        return ReaperPart(self.reaper(), self.database)

    def parts(self, worker: Worker) -> list[Part]:
        """A worker with everything that has to run somewhere beside it: a dispatcher, the sweep and a reaper."""
        return [worker, *self.dispatcher_parts(self.dispatcher()), self.reaper_part()]

    def run(self, **worker: Any) -> None:
        """Dispatch, run and reap in this program until Ctrl-C, SIGTERM or `stop()`, with the arguments of `worker`."""
        with Crew(self.parts(self.worker(**worker))) as crew:
            self._crews.append(crew)
            try:
                crew.run()
            finally:
                self._crews.remove(crew)

    def stop(self) -> None:
        """Let every `run` of this app come to its end (from another thread, or from a job), as a signal does.

        A second call ends what runs at once, unless it comes in the same instant as the first.
        """
        for crew in self._crews:
            crew.stop()

    def run_until_idle(
        self,
        *,
        slots: int = 8,
        watch: Callable[[RunningStep, State | None], None] | None = None,
        max_rounds: int = 100_000,
    ) -> int:
        """Dispatch and run inline until nothing more can be done now; returns how many runs there were."""
        dispatcher, runner = self.dispatcher(), self.inline_runner(slots=slots, watch=watch)
        runs = 0
        try:
            for _ in range(max_rounds):
                reports = dispatcher.round()
                for report in reports:
                    if report.error is not None:
                        raise report.error
                ran = runner.round()
                runs += ran
                if not ran and not any(report.changed for report in reports):
                    return runs
        finally:
            runner.close()
        raise StepwellError(f"the steps did not come to rest in {max_rounds} rounds")

    # look ---------------------------------------------------------------------------------------------

    def step(self, which: AnyStep) -> Step:
        """One step as it is now."""
        return self._reader.step(which)

    def steps(self, *, limit: int = 50, before: int | None = None, **filters: Any) -> list[Step]:
        """The newest steps that match."""
        return self._reader.steps(limit, before, **filters)

    def history(self, which: AnyStep) -> list[Transition]:
        """Every change of state of a step."""
        return self._reader.history(which)

    def tree(self, which: AnyStep) -> TreeNode:
        """A step with its descendants."""
        return self._reader.tree(which)

    def stats(self) -> dict[str, Any]:
        """Counts by state, stage and group."""
        return self._reader.stats()

    def workers(self) -> list[dict[str, Any]]:
        """The workers, what they serve and how much they run."""
        return self._reader.workers()

    def logs(self, which: AnyStep) -> list[dict[str, Any]]:
        """What the code of a step had to say (`step.log`)."""
        return self._reader.logs(which)

    def groups(self) -> list[dict[str, Any]]:
        """The groups with their locks."""
        return self._reader.groups()

    def ticks(self, group: str | None = None, limit: int = 20) -> list[dict[str, Any]]:
        """The tick log."""
        return self._reader.ticks(group, limit)

    def explain(self, which: AnyStep) -> Explanation:
        """Why a step is not running."""
        return explaining.explain(self.database, self.step(which))

    # act ----------------------------------------------------------------------------------------------

    def retry(self, which: AnyStep, *, who: str, why: str | None = None) -> list[int]:
        """Bring a step back with what went with it; returns the ids of all revived steps."""
        return self._actions.retry(self.step(which).id, who, why)

    def cancel(self, which: AnyStep, *, who: str, why: str | None = None) -> None:
        """Cancel a step and, with the next ticks, all below it."""
        self._actions.cancel(self.step(which).id, who, why)

    def skip(self, which: AnyStep, *, who: str, why: str | None = None) -> None:
        """Conclude a step without running it."""
        self._actions.skip(self.step(which).id, who, why)

    def complete(self, which: AnyStep, *, who: str, why: str | None = None, response: Any = None) -> None:
        """Resolve a step by hand, with a result."""
        self._actions.complete(self.step(which).id, who, why, response)

    def transition_to(self, which: AnyStep, state: State, *, who: str, why: str | None = None) -> None:
        """Move a step by hand to another state: whatever the table of transitions lets a person do.

        Pending (or Running) is a retry, with all that comes back; the others are what they say. Code that runs is told,
        as when its step is cancelled.
        """
        step, by_hand = self.step(which), self._actions
        moves: dict[State, Callable[..., Any]] = {
            State.PENDING: by_hand.retry, State.RUNNING: by_hand.retry, State.COMPLETED: by_hand.complete,
            State.SKIPPED: by_hand.skip, State.CANCELLED: by_hand.cancel, State.FAILED: by_hand.fail,
            State.STOPPED: by_hand.stop,
        }  # fmt: skip
        if state not in moves or not is_legal(step.state, state, operator=True):
            raise IllegalTransition(f"step {step.id} is {step.state}: nobody moves it from there to {state} by hand")
        try:
            moves[state](step.id, who, why)
        except ActionRefused as refused:
            raise ActionRefused(f"from {step.state} to {state} by hand: {refused}") from None

    def pause_workflow(self, which: AnyStep, *, who: str, why: str | None = None) -> None:
        """Hold back the Pending steps of a step's workflow."""
        self._actions.pause_workflow(self._workflow(which), who, why)

    def resume_workflow(self, which: AnyStep, *, who: str) -> None:
        """Let a paused workflow go on."""
        self._actions.resume_workflow(self._workflow(which), who)

    def _workflow(self, which: AnyStep) -> str:
        step = self.step(which)
        return step.workflow_id or step.uuid

    # watch over it --------------------------------------------------------------------------------------

    def check_invariants(self) -> list[invariants.Violation]:
        """The promises, checked on this database."""
        return invariants.check_invariants(self.database)

    def sweep(self) -> list[sweeping.Finding]:
        """Prove that marks and agenda are right; mends and returns what is not."""
        return sweeping.sweep(self.database)


def _check_worker(executor: str, slots: int, alive_seconds: float, grace_seconds: float) -> None:
    if executor not in get_args(ExecutorKind):
        raise StepwellError(f"executor={executor!r}: there are {', '.join(map(repr, get_args(ExecutorKind)))}")
    if type(slots) is not int or slots < 1:
        raise StepwellError(f"slots={slots!r}: a worker needs a whole number of them, and at least one")
    for name, seconds, least in (("alive_seconds", alive_seconds, 0.1), ("grace_seconds", grace_seconds, 0.0)):
        if not least <= seconds <= LONGEST_SECONDS:  # what is not a number is not either
            raise StepwellError(f"{name}={seconds!r}: not a number of seconds from {least:g} to {LONGEST_SECONDS:g}")


def _queue_names(queues: Iterable[str]) -> frozenset[str]:
    names: list[Any] = [queues] if isinstance(queues, str) else list(queues)
    for name in names:
        if not isinstance(name, str) or not name:
            raise StepwellError(f"{name!r} does not name a queue: say, for example, queues=['emails']")
    return frozenset(names)
