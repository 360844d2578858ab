"""A worker whose answer from the database was lost says its word again: nothing happens twice (SPEC 11.3)."""

from __future__ import annotations

from stepwell import NewStep
from stepwell.enqueue.parcel import wrap
from stepwell.ids import uuid7
from stepwell.run.ending import Ending
from tests.conformance.support import Engine


def test_the_end_of_compute_can_be_recorded_twice_and_its_children_exist_once(engine: Engine) -> None:
    engine.plant("step")
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "step")
        children = [wrap(NewStep(action="behave", parent=claim.step_id, uuid=uuid7(), label="child"))]
        assert runner._finisher.record(claim, "complete", "1", children)
        before = engine.snapshot()
        assert runner._finisher.record(claim, "complete", "1", children)
        assert len(engine.snapshot()["steps"]) == len(before["steps"]) == 2
        assert runner._finisher.write(claim, Ending(verb="finish")) == "Running"
    engine.settle()
    assert (engine["step"].state, engine["step"].response) == ("Completed", 1)


def test_an_end_with_children_can_be_written_twice_and_they_exist_once(engine: Engine) -> None:
    engine.plant("step")
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "step")
        children = [wrap(NewStep(action="behave", parent=claim.step_id, uuid=uuid7(), label="child"))]
        ending = Ending(verb="finish", response="1", children=children)
        assert runner._finisher.write(claim, ending) == "Running"
        before = engine.snapshot()
        assert runner._finisher.write(claim, ending) is None
        assert engine.snapshot() == before
    engine.settle()
    assert engine.state("step") == "Completed"
