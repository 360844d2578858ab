"""Two transactions on PostgreSQL that decide about the same tasks, the first one held just before its commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest

from stepwell import State, Stepwell
from stepwell.model.errors import ActionRefused
from stepwell.processes.queueing import Queued
from stepwell.run.claim import Claimer
from stepwell.store import Transaction
from stepwell.testing import ManualClock
from tests.conformance.processes.crystal import Tasks, refuse
from tests.conformance.support.asides import Aside
from tests.conformance.support.engine import returned

Work = Callable[[Stepwell], Any]


@pytest.fixture
def database_url(postgres_url: str) -> str:
    return postgres_url


class Meeting:
    """What the second session does while the first transaction of the app is held before its commit."""

    def __init__(self, app: Stepwell, clock: ManualClock, work: Work) -> None:
        self._app = app
        self._clock = clock
        self._work = work
        self._aside: Aside | None = None

    def at(self, moment: Literal["begin", "before", "after"], tx: Transaction | None) -> None:
        if moment == "before" and self._aside is None:
            self._aside = Aside(self._app.database.url, self._clock, self._work)
            self._aside.waits()

    def end(self) -> None:
        assert self._aside is not None, "the first transaction was not held"
        self._aside.ends()


@contextmanager
def meanwhile(app: Stepwell, clock: ManualClock, work: Work) -> Iterator[None]:
    """Hold the first commit inside the block until `work`, in another session, waits for a lock of it."""
    meeting = Meeting(app, clock, work)
    app.database.watch = meeting.at
    try:
        yield
    finally:
        app.database.watch = None
    meeting.end()


def queue_pair(into: list[Queued]) -> Work:
    return lambda app: into.append(Tasks(app).processes.queue("pair"))


def test_a_dependent_that_ends_while_its_dependee_completes_runs_again(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("pair")
    with tasks.worker() as runner:
        dependee, dependent = tasks.claim(runner, "dependee", "dependent")
        with meanwhile(app, clock, lambda other: returned(other._finisher, dependent, None)):
            returned(app._finisher, dependee, None)
    assert tasks.states() == {"dependee": "completed", "dependent": "not_completed"}


def test_a_dependee_that_completes_while_its_dependent_ends_lets_it_run_again(
    app: Stepwell, clock: ManualClock
) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("pair")
    with tasks.worker() as runner:
        dependee, dependent = tasks.claim(runner, "dependee", "dependent")
        with meanwhile(app, clock, lambda other: returned(other._finisher, dependee, None)):
            returned(app._finisher, dependent, None)
    assert tasks.states() == {"dependee": "completed", "dependent": "not_completed"}


def test_a_queueing_that_meets_the_end_of_a_dependent_makes_it_new(app: Stepwell, clock: ManualClock) -> None:
    """It does not pass over a task that has completed when it commits."""
    tasks = Tasks(app)
    tasks.processes.queue("dependent")
    queued: list[Queued] = []
    with tasks.worker() as runner:
        (dependent,) = tasks.claim(runner, "dependent")
        with meanwhile(app, clock, queue_pair(queued)):
            returned(app._finisher, dependent, None)
    assert tasks.states() == {"dependee": "new", "dependent": "new"}
    assert sorted(queued[0].new) == sorted([tasks.step_of("dependee"), tasks.step_of("dependent")])


@pytest.mark.parametrize("main_process", ["dependent", "free"])
def test_a_dependent_that_ends_while_a_queueing_passes_over_it_runs_again(
    app: Stepwell, clock: ManualClock, main_process: str
) -> None:
    """Also if it had no dependency before this queueing."""
    tasks = Tasks(app)
    tasks.processes.queue(main_process)
    with tasks.worker() as runner:
        (dependent,) = tasks.claim(runner, "dependent")
        with meanwhile(app, clock, lambda other: returned(other._finisher, dependent, None)):
            queued = tasks.processes.queue("pair")
    assert queued.passed_over == [dependent.step_id]
    assert tasks.states()["dependee"] == "new"
    assert tasks.states()["dependent"] == "not_completed"


def test_a_dependent_that_ends_while_an_operator_completes_its_dependee_runs_again(
    app: Stepwell, clock: ManualClock
) -> None:
    tasks = Tasks(app, max_error_tries=1)
    tasks.does["dependee"] = refuse
    tasks.processes.queue("dependee")
    app.run_until_idle()
    tasks.processes.queue("dependent")
    with tasks.worker() as runner:
        (dependent,) = tasks.claim(runner, "dependent")
        with meanwhile(app, clock, lambda other: returned(other._finisher, dependent, None)):
            app.complete(tasks.step_of("dependee"), who="ada")
    assert tasks.states() == {"dependee": "completed", "dependent": "not_completed"}


def test_an_operator_cannot_retry_a_step_while_a_queueing_succeeds_it(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app, max_error_tries=1)
    tasks.does["dependee"] = refuse
    tasks.processes.queue("dependee")
    app.run_until_idle()
    old = tasks.step_of("dependee")

    def retry(other: Stepwell) -> None:
        with pytest.raises(ActionRefused, match="is no longer the current one of its task"):
            other.retry(old, who="ada")

    with meanwhile(app, clock, retry):
        tasks.processes.queue("dependee")
    assert app.step(old).state is State.FAILED
    assert tasks.step_of("dependee") != old


def test_a_queueing_keeps_a_step_that_an_operator_is_retrying(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app, max_error_tries=1)
    tasks.does["dependee"] = refuse
    tasks.processes.queue("dependee")
    app.run_until_idle()
    old = tasks.step_of("dependee")
    queued: list[Queued] = []
    with meanwhile(app, clock, lambda other: queued.append(Tasks(other).processes.queue("dependee"))):
        app.retry(old, who="ada")
    assert queued[0] == Queued(kept=[old])
    assert tasks.step_of("dependee") == old


def test_of_two_queueings_at_once_the_second_keeps_what_the_first_has_made_new(
    app: Stepwell, clock: ManualClock
) -> None:
    tasks = Tasks(app)
    queued: list[Queued] = []
    with meanwhile(app, clock, queue_pair(queued)):
        first = tasks.processes.queue("pair")
    assert sorted(queued[0].kept) == sorted(first.new)
    assert len(app.steps()) == 2


def test_a_task_that_a_queueing_keeps_may_begin_meanwhile(app: Stepwell, clock: ManualClock) -> None:
    """Claims take no lock of tasks: a queueing holds up no executor."""
    tasks = Tasks(app)
    tasks.processes.queue("pair")
    with tasks.worker() as runner:

        def claim(moment: str, tx: Transaction | None) -> None:
            if moment == "before":
                app.database.watch = None
                aside = Aside(app.database.url, clock, lambda other: claimed.extend(claims(other)))
                aside.ends()

        def claims(other: Stepwell) -> list[int]:
            claimer = Claimer(other.database, runner.worker)
            return [claim.step_id for claim in other.database.transact(lambda tx: claimer.claim(tx, 10))]

        claimed: list[int] = []
        app.database.watch = claim
        queued = tasks.processes.queue("pair")
    assert sorted(claimed) == sorted(queued.kept)
    assert tasks.states() == {"dependee": "dead", "dependent": "dead"}  # their worker has signed off
