"""A process that dies in the middle of a run: children exactly once, nothing recorded is repeated."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from stepwell import Job, NewStep, Stepwell
from stepwell.define.transport import to_wire
from stepwell.run import finish
from stepwell.run.ending import Ending
from stepwell.testing import ManualClock
from tests.conformance.support.engine import PROCESS_SECONDS, Engine, other_app
from tests.conformance.support.jobs import below, names, settle

WHERE = ("in compute", "in complete")


def import_jobs(app: Stepwell, diary: Path, dies: str | None) -> None:
    """The program: a parent with two children. Where it is told to, its process is gone from one moment to the next."""
    leaf = app.job(name="leaf")(lambda: None)

    def note(what: str) -> None:
        with diary.open("a") as lines:
            lines.write(f"{what}\n")
        if dies == what:
            os._exit(9)

    class Parent(Job):
        def compute(self) -> str:
            self.children(leaf.options(label="a").draft(), leaf.options(label="b").draft())
            note("in compute")
            return "result"

        def complete(self) -> None:
            note("in complete")

    app.job(retries=0)(Parent)


def run_and_die(url: str, diary: Path, dies: str) -> None:
    with other_app(url) as app:
        import_jobs(app, diary, dies)
        app.run_until_idle()


@pytest.mark.slow
@pytest.mark.parametrize("dies", WHERE)
def test_a_run_that_dies_leaves_no_half_of_its_children_and_repeats_nothing_that_was_recorded(
    shared_database_url: str, clock: ManualClock, tmp_path: Path, dies: str
) -> None:
    diary = tmp_path / "diary"
    with other_app(shared_database_url, clock) as app:
        import_jobs(app, diary, None)
        parent = app.jobs["Parent"].enqueue()
        process = multiprocessing.get_context("spawn").Process(
            target=run_and_die, args=(shared_database_url, diary, dies), daemon=True
        )
        process.start()
        process.join(PROCESS_SECONDS)
        assert process.exitcode == 9
        assert parent.step().state == "Running"
        assert names(below(app, parent)) == ([] if dies == "in compute" else ["a", "b"])

        clock.advance(3600)
        app.reaper().round()
        assert (parent.step().state, parent.step().rescues) == ("Pending", 1)
        settle(app, clock)

        assert (parent.step().state, parent.result(timeout=0)) == ("Completed", "result")
        assert [(child.name, child.state.value) for child in below(app, parent)] == [
            ("a", "Completed"),
            ("b", "Completed"),
        ]
        again = {"in compute": [*WHERE[:1], *WHERE], "in complete": [*WHERE, *WHERE[1:]]}[dies]
        assert diary.read_text().splitlines() == again
        assert app.check_invariants() == []
        assert app.sweep() == []


def test_a_run_that_was_thought_dead_adds_no_children_to_the_run_that_came_after_it(engine: Engine) -> None:
    engine.plant("step")
    with engine.worker() as runner:
        finisher = runner._finisher
        (old,) = engine.claim(runner, "step")
        finisher.hand_back(old)
        (new,) = engine.claim(runner, "step")
        children = [to_wire(NewStep(action="behave", parent=old.step_id))]
        before = engine.snapshot()
        assert finisher.write(old, Ending(verb="finish", response="1", children=children)) is None
        assert not finisher.record(old, "complete", "1", children)
        assert engine.snapshot() == before
        assert finisher.write(new, Ending(verb="finish", response="2", children=children)) == "Running"
    engine.settle()
    assert (engine["step"].state, engine["step"].response, len(below(engine.app, engine["step"]))) == (
        "Completed",
        2,
        1,
    )


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_run_suspended_between_the_record_of_compute_and_the_next_stage_asks_for_its_lease_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    engine.plant("step")
    time = [0.0]
    monkeypatch.setattr(finish, "since_boot", lambda: time[0])
    with engine.worker() as runner:
        finisher, database = runner._finisher, engine.app.database
        (claim,) = engine.claim(runner, "step")

        def be_suspended(moment: str, tx: object) -> None:
            if moment == "after":
                database.watch = None
                time[0] += database.lease_seconds
                if is_lost:
                    finisher.hand_back(claim)

        database.watch = be_suspended
        assert finisher.record(claim, "complete", "1", []) is not is_lost
        if not is_lost:
            finisher.write(claim, Ending(verb="finish", response="1"))
