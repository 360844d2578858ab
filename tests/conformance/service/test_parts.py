"""What the parts of an app do on its clock: a manual one rules how long steps may run and when the sweep is due."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from stepwell import Stepwell
from stepwell.dispatch.sweep_part import BUSY_SECONDS, SWEEP_SECONDS, SweepPart
from stepwell.model.errors import DatabaseUnavailable
from stepwell.service.crew import Crew
from stepwell.service.part import Part
from stepwell.testing import ManualClock
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP

WAIT_SECONDS = 30.0


@contextmanager
def _running(*parts: Part) -> Iterator[None]:
    crew = Crew(parts)
    thread = threading.Thread(target=crew.run)
    thread.start()
    try:
        yield
    finally:
        crew.stop()
        thread.join()


def _until(holds: Callable[[], bool]) -> None:
    soon = threading.Event()
    for _ in range(int(WAIT_SECONDS / 0.01)):
        if holds():
            return
        soon.wait(0.01)
    raise AssertionError("it did not happen")


def test_a_run_is_cut_off_when_the_clock_of_the_app_says_so(app: Stepwell, clock: ManualClock) -> None:
    began, may_end = threading.Event(), threading.Event()

    @app.job()
    def hang() -> None:
        began.set()
        may_end.wait(WAIT_SECONDS)

    step = hang.options(timeout=600, cooldown=60).enqueue()
    try:
        with _running(app.worker(slots=1)):
            assert began.wait(WAIT_SECONDS)
            assert str(app.step(step).state) == "Running"
            clock.advance(660)
            _until(lambda: str(app.step(step).state) == "Pending")
    finally:
        may_end.set()
    assert app.step(step).reason == "not_completed"


def test_the_sweep_is_due_when_the_clock_says_so_and_reports_what_it_repaired(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    part = SweepPart(engine.app.database)
    part.open()
    assert engine.change("DELETE FROM steps_agenda") == 1
    assert part.round(()) == SWEEP_SECONDS
    engine.clock.advance(SWEEP_SECONDS - 1)
    assert (part.round(()), part.report()) == (1.0, "")
    engine.clock.advance(1)
    assert (part.round(()), part.report()) == (SWEEP_SECONDS, "1 repaired by the sweep")


def test_the_sweep_of_a_dispatcher_with_some_groups_leaves_the_others_alone(engine: Engine) -> None:
    engine.plant("step", group="beta")
    _, part, _ = engine.app.parts.of_dispatcher(engine.app.dispatcher([GROUP]))
    part.open()
    assert engine.change("DELETE FROM steps_agenda") == 1
    engine.clock.advance(SWEEP_SECONDS)
    part.round(())
    assert part.report() == ""
    assert len(engine.app.sweep()) == 1


def test_a_dispatcher_reports_its_ticks(engine: Engine) -> None:
    engine.plant("one, two", group=GROUP)
    part, _, _ = engine.app.parts.of_dispatcher(engine.app.dispatcher())
    assert part.report() == "0 dispatched in 0 ticks"
    with engine.worker():
        while part.round(()) == 0.0:
            pass
    assert part.report().startswith("2 dispatched in ")


def test_the_sweep_returns_soon_to_a_group_that_has_marks(engine: Engine) -> None:
    """Whether or not it has some at every fifth minute: nothing can be said about a group with unprocessed marks."""
    part = SweepPart(engine.app.database)
    part.open()
    engine.plant("busy(child), lost", group=GROUP)
    engine.app.cancel(engine.refs["busy"], who="tester")  # marked, until a tick processes it
    engine.change("DELETE FROM steps_agenda WHERE step_id = :id", id=engine.refs["lost"].id)
    engine.clock.advance(SWEEP_SECONDS)
    assert part.round(()) == BUSY_SECONDS
    engine.tick()
    engine.clock.advance(BUSY_SECONDS)
    assert part.round(()) == SWEEP_SECONDS - BUSY_SECONDS
    assert part.report() == "1 repaired by the sweep"


def test_an_outage_ends_no_part_that_opens_or_closes(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of one part is the end of its process."""
    worker, *beside = app.parts.all(app.worker(slots=1))

    def away(*arguments: object, **options: object) -> None:
        raise DatabaseUnavailable("the server is restarting")

    with monkeypatch.context() as outage:
        outage.setattr(app.database, "transact", away)
        for part in [*beside, worker]:
            part.open()
            part.close()
    for part in beside:
        part.open()
        part.round(())
        part.close()
    assert app.retention.status().keep_days == 30
