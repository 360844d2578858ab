"""A worker that lost the answer of the database repeats its write: nothing happens twice."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

from stepwell import NewStep
from stepwell.define.transport import to_wire
from stepwell.model.claimed import ClaimedStep
from stepwell.run.ending import Ending
from stepwell.store import Transaction
from stepwell.store.engine import claims
from tests.conformance.support.engine import Engine


def test_the_end_of_compute_can_be_recorded_twice_and_its_children_exist_once(engine: Engine) -> None:
    engine.plant("step")
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "step")
        children = [to_wire(NewStep(action="behave", parent=claim.step_id, uuid=str(uuid4()), label="child"))]
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
        children = [to_wire(NewStep(action="behave", parent=claim.step_id, uuid=str(uuid4()), label="child"))]
        ending = Ending(verb="finish", response="1", children=children)
        assert runner._finisher.write(claim, ending) == "Running"
        before = engine.snapshot()
        assert runner._finisher.write(claim, ending) is None
        assert engine.snapshot() == before
    engine.settle()
    assert engine.state("step") == "Completed"


def test_ends_can_be_written_together_twice_and_each_is_in_the_history_once(engine: Engine) -> None:
    with engine.worker() as runner:
        for label in "abc":
            engine.add(label)
        claims = engine.claim(runner, "a", "b", "c")
        endings = [(claim, Ending(verb="finish", response="1")) for claim in claims]
        assert runner._finisher.write_all(endings) == ["Completed"] * 3
        before = engine.snapshot()
        assert runner._finisher.write_all(endings) == [None] * 3
        assert engine.snapshot() == before
    assert [engine.path(label).count("Completed") for label in "abc"] == [1, 1, 1]


def test_a_stale_write_in_a_batch_changes_nothing_and_the_others_are_applied(engine: Engine) -> None:
    engine.add("a")
    engine.add("b")
    with engine.worker() as slow, engine.worker() as quick:
        late, good = engine.claim(slow, "a", "b")
        slow._finisher.hand_back(late)
        engine.tick()
        (again,) = engine.claim(quick, "a")
        second = Ending(verb="finish", response='"of the second run"')
        assert quick._finisher.write_all([(again, second)]) == ["Completed"]
        before = engine.path("a")
        endings = [(claim, Ending(verb="finish", response='"late"')) for claim in (late, good)]
        assert slow._finisher.write_all(endings) == [None, "Completed"]
    assert (engine.path("a"), engine["a"].response) == (before, "of the second run")
    assert engine["b"].response == "late"


def test_a_claim_takes_no_step_that_has_moved_on(engine: Engine) -> None:
    with engine.worker() as runner:
        engine.add("done")
        (done,) = engine.claim(runner, "done")
        runner._finisher.write_all([(done, Ending(verb="finish"))])
        engine.add("running")
        (running,) = engine.claim(runner, "running")
        engine.add("open")
        engine.tick()
        before = [engine.path("done"), engine.path("running")]
        ids = [engine[label].id for label in ("done", "running", "open")]

        def claim(tx: Transaction) -> list[ClaimedStep]:
            now = engine.app.database.now()
            return claims.claim_steps(tx, ids, worker=runner.worker.id, hostname="here", now=now, margin=1.0)

        assert [step.id for step in engine.app.database.transact(claim)] == [engine["open"].id]
        assert [engine.path("done"), engine.path("running")] == before
        assert runner._finisher.write_all([(running, Ending(verb="finish"))]) == ["Completed"]


def test_the_history_of_many_does_not_go_back_in_time_either(engine: Engine) -> None:
    engine.add("a")
    engine.add("b")
    with engine.worker() as runner:
        ahead = engine.app.database.now() + timedelta(seconds=5)
        engine.change("UPDATE steps SET updated_at = :ahead WHERE id = :id", ahead=ahead, id=engine["a"].id)
        claims = engine.claim(runner, "a", "b")
        assert engine["a"].updated_at == ahead
        runner._finisher.write_all([(claim, Ending(verb="finish")) for claim in claims])
    moments = [change.at for change in engine.history("a")]
    assert moments == sorted(moments)
    assert moments[-1] == engine["a"].updated_at == ahead
