"""Shared by the conformance tests: trees written as one line, an engine that runs them to completion, plain SQL."""

from __future__ import annotations

import multiprocessing
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any
from uuid import uuid4

from stepwell import (
    NewStep,
    Permanent,
    Reschedule,
    Retry,
    Skip,
    State,
    Step,
    StepRef,
    Stepwell,
    Stop,
    Transition,
)
from stepwell.define.backoff import exponential
from stepwell.model import codec
from stepwell.model.claimed import Claim
from stepwell.model.error_text import describe
from stepwell.model.errors import UnstorableValue
from stepwell.run.ending import Ending, Verb
from stepwell.run.finish import Finisher
from stepwell.run.inline import InlineRunner
from stepwell.testing import ManualClock, behave

_TOKEN = re.compile(r"\s*(?:([(),>])|(!?)(\w+)(?::([\w/]+))?(?:<([\w+]+))?)")


def returned(finisher: Finisher, claim: Claim, response: Any) -> State | None:
    """Write the end of a run that returned this; it fails if that cannot be stored."""
    try:
        ending = Ending(verb="finish", response=codec.encode(response, "response"), duration=0.1)
    except UnstorableValue as error:
        ending = Ending(verb="fail", reason="unstorable_result", error=str(error), duration=0.1)
    return finisher.write(claim, ending)


def failed(finisher: Finisher, claim: Claim, message: str) -> State | None:
    """Write the end of a run that failed without a retry."""
    return finisher.write(claim, Ending(verb="fail", reason="error", error=message))


def raised(finisher: Finisher, claim: Claim, error: BaseException) -> State | None:
    """Write the end of a run that raised this, as the lifecycle of a plain function would."""
    return finisher.write(claim, _ending_of(claim, error))


def _ending_of(claim: Claim, error: BaseException) -> Ending:
    match error:
        case Stop() | Skip():
            verb: Verb = "stop" if isinstance(error, Stop) else "skip"
            return Ending(verb=verb, reason=str(error) or ("stopped" if verb == "stop" else "skipped"), duration=0.1)
        case Reschedule():
            return Ending(verb="throttle", in_=error.in_, at=error.at)
        case Permanent():
            return Ending(verb="fail", reason="error", error=describe(error))
    if claim.step.retries >= claim.step.max_retries:
        return Ending(verb="fail", reason="max_retries_reached", error=describe(error))
    if isinstance(error, Retry) and error.in_ is not None:
        return Ending(verb="retry_later", in_=error.in_, error=describe(error))
    return Ending(verb="retry_later", in_=exponential(claim.step.retries + 1), error=describe(error))


class Engine:
    """An app with a manual clock, the job `behave`, and steps that are referred to by their labels.

    A tree is one line. `,` separates steps of one index, `>` starts the next index, `(…)` encloses children, `!` makes
    an exception handler, `:` is how a step ends (`:raise/ok`: one word per attempt), `<a+b` lists DAG dependencies:

        root(first:fail, beside > second, !cleanup)      left, right, join<left+right

    Steps at the top are roots of their own; with `>` or `!` among them they share one block.
    """

    def __init__(self, app: Stepwell, clock: ManualClock) -> None:
        self.app = app
        self.clock = clock
        self.refs: dict[str, StepRef] = {}
        behave(app)

    # build ----------------------------------------------------------------------------------------------

    def plant(self, line: str, **settings: Any) -> dict[str, StepRef]:
        """Create the steps of a line; `settings` apply to its top-level steps."""
        drafts = parse(line, settings)
        refs = self.app.enqueue_many(drafts.values())
        planted: dict[str, StepRef] = dict(zip(drafts, refs, strict=True))
        self.refs |= planted
        return planted

    def add(self, label: str, outcome: str = "ok", **settings: Any) -> StepRef:
        """Create one more step: `add("late", parent=engine["root"])`."""
        arguments = {"outcome": outcome.split("/") if "/" in outcome else outcome}
        self.refs[label] = self.app.enqueue("behave", arguments, label=label, **settings)
        return self.refs[label]

    # run ------------------------------------------------------------------------------------------------

    def settle(self, slots: int = 8) -> int:
        """Dispatch and run until nothing is left to do, advancing the clock past every delay; returns the runs."""
        runs = 0
        for _ in range(1_000):
            runs += self.app.run_until_idle(slots=slots)
            due = self._next_due()
            if due is None:
                return runs
            self.clock.advance(max(0.0, (due - self.clock.now()).total_seconds()))
        raise AssertionError(f"steps were still due after the last round: {self.states()}")

    def _next_due(self) -> Any:
        rows = self.sql("SELECT min(due_at) AS due_at FROM steps_agenda WHERE status = 'delayed'")
        return rows[0]["due_at"]

    def tick(self) -> int:
        """Dispatch until nothing changes, without running anything; returns how many rows were changed."""
        reports = self.app.dispatcher().run_until_quiet()
        for report in reports:
            if report.error is not None:
                raise report.error
        return sum(report.changed for report in reports)

    @contextmanager
    def worker(self, slots: int = 8) -> Iterator[InlineRunner]:
        """A live worker that runs nothing by itself, for tests that claim and finish explicitly."""
        runner = self.app.inline_runner(slots=slots)
        try:
            yield runner
        finally:
            runner.close()

    def claim(self, runner: InlineRunner, *labels: str) -> list[Claim]:
        """Tick and claim, until these steps are Running under this worker; returns their claims in that order."""
        wanted = {self.refs[label].id: label for label in labels}
        claims: dict[int, Claim] = {}
        for _ in range(100):
            self.tick()
            for claim in runner.claim(100):
                claims[claim.step_id] = claim
            if wanted.keys() <= claims.keys():
                return [claims[self.refs[label].id] for label in labels]
        raise AssertionError(f"could not be claimed: {[label for id_, label in wanted.items() if id_ not in claims]}")

    # look -----------------------------------------------------------------------------------------------

    def __getitem__(self, label: str) -> Step:
        return self.app.step(self.refs[label])

    def state(self, label: str) -> str:
        return str(self[label].state)

    def states(self, *labels: str) -> dict[str, str]:
        """The states of these steps, or of all."""
        return {label: self.state(label) for label in labels or self.refs}

    def reasons(self, *labels: str) -> dict[str, str | None]:
        return {label: self[label].reason for label in labels or self.refs}

    def history(self, label: str) -> list[Transition]:
        return self.app.history(self.refs[label])

    def path(self, label: str) -> list[str]:
        """The states that a step went through, in order."""
        return [str(transition.to_state) for transition in self.history(label)]

    def sql(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        """Rows of a SELECT with `:name` parameters, in a transaction of its own."""
        return self.app.database.read(lambda tx: tx.fetch(_styled(self.app, statement), parameters))

    def change(self, statement: str, **parameters: Any) -> int:
        """How many rows a plain INSERT, UPDATE or DELETE with `:name` parameters changed."""
        styled = _styled(self.app, statement)
        return self.app.database.transact(lambda tx: tx.execute(styled, parameters))

    def snapshot(self) -> dict[str, list[dict[str, Any]]]:
        """All rows of the tables of steps: equal snapshots mean that nothing was written."""
        tables = ("steps", "step_transitions", "step_dependencies", "steps_agenda", "steps_unconcluded", "steps_marks")
        return {table: sorted(self.sql(f"SELECT * FROM {table}"), key=repr) for table in tables}


def _styled(app: Stepwell, statement: str) -> str:
    if app.database.dialect == "sqlite":
        return statement
    return re.sub(r"(?<![:\w]):(\w+)", r"%(\1)s", statement.replace("%", "%%"))


# Trees written as one line ----------------------------------------------------------------------------------


@dataclass
class _Place:
    parent: str | None
    index: int = 1


def parse(line: str, settings: Mapping[str, Any] | None = None) -> dict[str, NewStep]:
    """The drafts of a line, by label, each after its parent and its dependencies."""
    settings = dict(settings or {})
    if _shares_a_block(line) and "parent" not in settings:
        settings.setdefault("block", str(uuid4()))
    drafts: dict[str, NewStep] = {}
    stack = [_Place(None)]
    last = ""
    position = 0
    line = line.strip()
    while position < len(line):
        token = _TOKEN.match(line, position)
        if token is None:
            raise ValueError(f"cannot parse the tree from here: {line[position:]!r}")
        position = token.end()
        sign, bang, label, outcome, after = token.groups()
        place = stack[-1]
        match sign:
            case "(":
                stack.append(_Place(last))
            case ")":
                stack.pop()
            case ">":
                place.index += 1
            case ",":
                pass
            case None:
                last = label
                if label in drafts:
                    raise ValueError(f"duplicate label {label!r}")
                words = (outcome or "ok").split("/")
                top = settings if place.parent is None else {"parent": drafts[place.parent]}
                drafts[label] = NewStep(
                    action="behave",
                    arguments={"outcome": words if len(words) > 1 else words[0]},
                    label=label,
                    index=place.index,
                    type="resolve-exception" if bang else "default",
                    depends_on=[drafts[name] for name in after.split("+")] if after else (),
                    **top,
                )
    return drafts


def _shares_a_block(line: str) -> bool:
    depth = 0
    for character in line:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0 and character in ">!":
            return True
    return False


# The database without Stepwell ------------------------------------------------------------------------------


@contextmanager
def plain_connection(app: Stepwell) -> Iterator[Any]:
    """A connection of the driver, as a user's program would open it (in memory: the app's own)."""
    url = app.database.url
    if url.startswith("postgresql"):
        import psycopg

        with psycopg.connect(url) as connection:
            yield connection
    elif url == "sqlite://":
        yield app.database.connections.writer()  # type: ignore[attr-defined]
    else:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            yield connection


# Other processes --------------------------------------------------------------------------------------------

PROCESS_SECONDS = 120.0  # a process that has not responded by then hangs; a healthy one takes a few seconds


def in_processes(work: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call `work` in one new process for each tuple of arguments, all starting together; returns their results."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(calls))
    ends, processes = [], []
    for call in calls:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_one_of_many, args=(there, barrier, work, call), daemon=True)
        process.start()
        there.close()
        ends.append(here)
        processes.append(process)
    try:
        results = []
        for end in ends:
            assert end.poll(PROCESS_SECONDS), "a process of this test hangs"
            result = end.recv()
            if isinstance(result, BaseException):
                raise result
            results.append(result)
        return results
    finally:
        for process, end in zip(processes, ends, strict=True):
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
            end.close()


def _one_of_many(end: Connection, barrier: Barrier, work: Callable[..., Any], call: tuple[Any, ...]) -> None:
    try:
        barrier.wait(PROCESS_SECONDS)
        end.send(work(*call))
    except BaseException as error:
        end.send(error if isinstance(error, Exception) else RuntimeError(repr(error)))


@contextmanager
def other_app(url: str, clock: ManualClock | None = None) -> Iterator[Stepwell]:
    """A second Stepwell on the same database, as another process would have it."""
    app = Stepwell(url, clock=clock or ManualClock()).open()
    try:
        yield app
    finally:
        app.close()
