"""Crashing a workflow at every commit, to see that each of its runs ends like one without a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stepwell.define.definition import JobDefinition
from stepwell.model.error_text import describe
from stepwell.model.errors import StepwellError
from stepwell.store.scratch import scratch_database
from stepwell.testing.binding import bound
from stepwell.testing.clock import ManualClock
from stepwell.testing.crash_point import Commits, CrashPoint
from stepwell.testing.crash_run import CrashRun
from stepwell.testing.final_state import Compare, FinalState, state_and_result, violations
from stepwell.testing.settling import settle
from stepwell.workflow.workflow import Workflow

if TYPE_CHECKING:
    from stepwell.app import Stepwell

MAX_SHOWN: Final = 10

Check = Callable[["Stepwell"], object]


@dataclass(frozen=True, slots=True)
class CrashReport:
    """What was tried: how many commits a run without a crash makes, and the crash points."""

    commits: int
    points: tuple[CrashPoint, ...]


class CrashFailure(AssertionError):
    """Some crashes left something wrong: `problems` by crash point."""

    def __init__(self, message: str, problems: dict[CrashPoint, list[str]]) -> None:
        super().__init__(message)
        self.problems = problems


def crash_everywhere(
    begin: Workflow[Any] | JobDefinition[..., Any] | Callable[[], object],
    context: Any = None,
    *,
    app: Stepwell | None = None,
    check: Check | None = None,
    compare: Compare = state_and_result,
    work: Callable[[Stepwell], object] = settle,
    url: str = "sqlite://",
    processes: bool = False,
    begin_too: bool = False,
    commits: Iterable[int] | None = None,
) -> CrashReport:
    """Run a workflow once undisturbed, then again for every commit, with a crash before it and a crash after it.

    `begin` is a workflow that is started with `context`, a job without arguments, or a function that enqueues with
    `app`; it is called at the start of every run. `work` runs everything; by default it is `settle`. After a crash,
    everything that the app keeps in memory is built anew on the same database, the clock moves past the leases of the
    dead worker, and `work` is called again.

    Every run must keep the invariants, complete no step twice, and end like the undisturbed one: with the same steps,
    states and results (`compare` chooses what of a step is compared). `check` is called with the app at the end of
    every run and raises if something is wrong: use it for side effects. Raises `CrashFailure` with what was wrong at
    which crash point.

    A crash is simulated by an exception. With `processes`, every run is a child process that really dies by SIGKILL.
    The crash points begin when `begin` has returned; with `begin_too`, they include its own commits, and it is called
    again if it did not return. `url` chooses the kind of database: each run has an empty one of its own, deleted
    afterwards. `commits` limits the crash points to some numbers, to look into a failure.

    >>> from stepwell import Stepwell
    >>> app = Stepwell("sqlite://")
    >>> @app.job
    ... def double(number: int) -> int:
    ...     return 2 * number
    >>> report = crash_everywhere(lambda: double.enqueue(21), app=app)
    >>> len(report.points) == 2 * report.commits
    True
    """
    app = _app_of(begin, app)
    run = CrashRun(app, _function_of(begin, context), work, begin_too)
    explorer = _Explorer(run, url, processes, check, compare)
    expected, counted = explorer.undisturbed()
    numbers = range(1, counted.count + 1) if commits is None else commits
    points = tuple(CrashPoint(moment, number) for number in numbers for moment in ("before", "after"))
    problems = {point: found for point in points if (found := list(explorer.problems(point, expected)))}
    if problems:
        raise CrashFailure(_report(problems, len(points), counted), problems)
    return CrashReport(counted.count, points)


@dataclass(frozen=True, slots=True)
class _Explorer:
    run: CrashRun
    url: str
    processes: bool
    check: Check | None
    compare: Compare

    def undisturbed(self) -> tuple[FinalState, Commits]:
        with scratch_database(self.url) as url:
            clock = ManualClock()
            counted = self._run(url, clock, None)
            with bound(self.run.app, url, clock=clock) as app:
                if wrong := list(self._wrong(app)):
                    raise AssertionError("\n  ".join(["without any crash:", *wrong]))
                return FinalState.of(app, self.compare), counted

    def problems(self, point: CrashPoint, expected: FinalState) -> Iterator[str]:
        """What is wrong after a crash at this point."""
        with scratch_database(self.url) as url:
            clock = ManualClock()
            try:
                self._run(url, clock, point)
            except Exception as error:
                yield f"what continues after the crash raised {describe(error)}"
            with bound(self.run.app, url, clock=clock) as app:
                yield from expected.differences(FinalState.of(app, self.compare))
                yield from self._wrong(app)

    def _run(self, url: str, clock: ManualClock, point: CrashPoint | None) -> Commits:
        return (self.run.in_children if self.processes else self.run.in_process)(url, clock, point)

    def _wrong(self, app: Stepwell) -> Iterator[str]:
        yield from violations(app)
        if self.check is not None:
            try:
                self.check(app)
            except Exception as error:
                yield f"the check raised {describe(error)}"


def _app_of(begin: Any, app: Stepwell | None) -> Stepwell:
    if app is not None:
        return app
    if isinstance(begin, Workflow | JobDefinition):
        return begin.app
    raise StepwellError("crash_everywhere(function) cannot know which app the function uses: pass app=")


def _function_of(begin: Any, context: Any) -> Callable[[], object]:
    if isinstance(begin, Workflow):
        return lambda: begin.start(context)
    if context is not None:
        raise StepwellError("only a workflow has a context; pass a function that enqueues: lambda: job.enqueue(7)")
    function: Callable[[], object] = begin.enqueue if isinstance(begin, JobDefinition) else begin
    return function


def _report(problems: dict[CrashPoint, list[str]], tried: int, counted: Commits) -> str:
    lines = [f"{len(problems)} of {tried} crashes left something wrong; repeat one with commits=[number]"]
    for point, found in list(problems.items())[:MAX_SHOWN]:
        changes = counted.changes[point.commit - 1] if point.commit <= len(counted.changes) else ""
        lines += [f"crash {point}{f' ({changes})' if changes else ''}:", *(f"  {each}" for each in found)]
    if len(problems) > MAX_SHOWN:
        lines.append(f"and {len(problems) - MAX_SHOWN} more crash points")
    return "\n".join(lines)
