"""Leases: one holder, whose writes alone count, and a lease that is held until it is released."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell import ActionRefused, Permanent, Reschedule, Retry, Skip, State, Stop
from stepwell.model.claimed import Claim
from stepwell.run.finish import Finisher
from tests.conformance.support.engine import Engine, raised, returned
from tests.conformance.support.ticks import GROUP, run, run_level

WORDS: dict[str, Callable[[Finisher, Claim], Any]] = {
    "returned": lambda finisher, claim: returned(finisher, claim, "late"),
    "returned what cannot be stored": lambda finisher, claim: returned(finisher, claim, float("nan")),
    "raised": lambda finisher, claim: raised(finisher, claim, RuntimeError("late")),
    "failed": lambda finisher, claim: raised(finisher, claim, Permanent("late")),
    "stopped": lambda finisher, claim: raised(finisher, claim, Stop("late")),
    "skipped": lambda finisher, claim: raised(finisher, claim, Skip("late")),
    "retried": lambda finisher, claim: raised(finisher, claim, Retry("late")),
    "throttled": lambda finisher, claim: raised(finisher, claim, Reschedule(in_=1)),
    "handed back": lambda finisher, claim: finisher.hand_back(claim),
}


def _end_from_outside(engine: Engine, action: str, label: str) -> str:
    state = {"cancel": State.CANCELLED, "skip": State.SKIPPED, "fail": State.FAILED, "stop": State.STOPPED}[action]
    engine.app.transition_to(engine.refs[label], state, who="tester")
    return str(state)


@pytest.fixture(params=["cancel", "skip", "fail", "stop"])
def action(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# A step that was ended from outside while it runs --------------------------------------------------------------


def test_a_running_step_that_is_ended_from_outside_keeps_its_lease(engine: Engine, action: str) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "step")
        state = _end_from_outside(engine, action, "step")
        engine.tick()
        step = engine["step"]
        assert (step.state, step.lease_worker, step.lease_token) == (state, runner.worker.id, claim.token)
        assert engine.app.breaker.safe_to_restart().running == 1
        assert runner._finisher.release_lease(claim)
        step = engine["step"]
        assert (step.state, step.lease_worker) == (state, None)
        assert engine.app.breaker.safe_to_restart().running == 0
        assert engine.path("step")[-1] == state
        assert len(engine.path("step")) == 4


def test_a_stale_write_to_a_step_that_was_ended_from_outside_changes_nothing(engine: Engine, action: str) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "step")
        _end_from_outside(engine, action, "step")
        before = engine.snapshot()
        assert [word for word, write in WORDS.items() if write(runner._finisher, claim) is not None] == []
        assert engine.snapshot() == before
        assert runner._finisher.release_lease(claim)
        assert not runner._finisher.release_lease(claim)
        before = engine.snapshot()
        assert [word for word, write in WORDS.items() if write(runner._finisher, claim) is not None] == []
        assert engine.snapshot() == before


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("root(held > behind)", id="next index"),
        pytest.param("held > behind", id="next index at root"),
        pytest.param("held, behind<held", id="edge"),
        pytest.param("root(held, other, behind<held)", id="edge under a parent"),
    ],
)
def test_no_dependent_of_a_step_starts_before_its_lease_is_released(engine: Engine, action: str, line: str) -> None:
    engine.plant(line, group=GROUP)
    with engine.worker() as runner:
        if "root" in engine.refs:
            run_level(engine, runner, "root")
        (held,) = engine.claim(runner, "held")
        _end_from_outside(engine, action, "held")
        for _ in range(3):
            engine.tick()
        assert engine.state("behind") == "Pending"
        assert engine.app.explain(engine.refs["behind"]).obstacles[0].steps == (held.step_id,)
        runner._finisher.release_lease(held)
        engine.tick()
        assert engine.state("behind") == ("Dispatched" if action == "skip" else "NotRunnable")


def test_a_parent_is_not_decided_before_the_lease_of_its_child_is_released(engine: Engine, action: str) -> None:
    engine.plant("root(held)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        (held,) = engine.claim(runner, "held")
        _end_from_outside(engine, action, "held")
        engine.tick()
        assert engine.state("root") == "Running"
        assert "held" in engine.app.explain(engine.refs["root"]).summary
        runner._finisher.release_lease(held)
        engine.tick()
        assert engine.state("root") == ("Completed" if action == "skip" else "Failed")


def test_a_step_cannot_be_retried_before_its_lease_is_released(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "step")
        engine.app.cancel(engine.refs["step"], who="tester")
        before = engine.snapshot()
        with pytest.raises(ActionRefused, match="its process is still running"):
            engine.app.retry(engine.refs["step"], who="tester")
        assert engine.snapshot() == before
        runner._finisher.release_lease(claim)
        assert engine.app.retry(engine.refs["step"], who="tester").revived == [claim.step_id]
    engine.settle()
    assert engine.state("step") == "Completed"


def test_a_parent_cannot_be_retried_before_the_lease_of_its_child_is_released(engine: Engine) -> None:
    engine.plant("root(held)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        (held,) = engine.claim(runner, "held")
        engine.app.cancel(engine.refs["root"], who="tester")
        engine.tick()
        assert engine.state("held") == "Cancelled"
        with pytest.raises(ActionRefused, match=r"held.*its process is still running"):
            engine.app.retry(engine.refs["root"], who="tester")
        runner._finisher.release_lease(held)
        engine.app.retry(engine.refs["root"], who="tester")
    engine.settle()
    assert engine.states() == {"root": "Completed", "held": "Completed"}


def test_the_inline_runner_releases_the_lease_by_itself(engine: Engine, action: str) -> None:
    engine.plant("root(held > behind)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        (held,) = engine.claim(runner, "held")
        state = _end_from_outside(engine, action, "held")
        run(runner, held)
        assert engine["held"].lease_worker is None
        assert engine["held"].state == state
    engine.settle()


def test_releasing_the_lease_of_a_step_that_still_runs_does_nothing(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "step")
        assert not runner._finisher.release_lease(claim)
        assert engine["step"].lease_worker == runner.worker.id


# One holder ---------------------------------------------------------------------------------------------------


def test_a_claim_gives_a_new_token_and_writes_under_an_older_one_change_nothing(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        (old,) = engine.claim(runner, "step")
        runner._finisher.hand_back(old)
        (new,) = engine.claim(runner, "step")
        assert new.token == old.token + 1
        before = engine.snapshot()
        for word in WORDS.values():
            assert word(runner._finisher, old) is None
        assert not runner._finisher.release_lease(old)
        assert engine.snapshot() == before
        run(runner, new)
    assert engine.state("step") == "Completed"


def test_an_older_run_cannot_release_the_lease_of_a_newer_one(engine: Engine, action: str) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        (old,) = engine.claim(runner, "step")
        runner._finisher.hand_back(old)
        (new,) = engine.claim(runner, "step")
        _end_from_outside(engine, action, "step")
        assert not runner._finisher.release_lease(old)
        assert (engine["step"].lease_worker, engine["step"].lease_token) == (runner.worker.id, new.token)
        assert runner._finisher.release_lease(new)


def test_a_step_is_claimed_by_one_worker_only(engine: Engine) -> None:
    engine.plant("a, b, c, d", group=GROUP)
    with engine.worker() as one, engine.worker() as two:
        engine.tick()
        claims = [one.claim(3), two.claim(3), one.claim(3), two.claim(3)]
        assert [len(found) for found in claims] == [3, 1, 0, 0]
        assert len({claim.step_id for found in claims for claim in found}) == 4


def test_a_worker_claims_only_what_it_serves(engine: Engine) -> None:
    engine.plant("fast", queue="candles")
    engine.plant("slow")
    with engine.worker():
        candles = engine.app.inline_runner(queues=["candles"])
        engine.tick()
        assert [claim.step.label for claim in candles.claim(10)] == ["fast"]
        candles.close()


def test_a_parent_that_waits_for_its_children_has_no_lease(engine: Engine) -> None:
    engine.plant("root(child)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        root = engine["root"]
        assert (root.state, root.lease_worker, root.lease_deadline) == ("Running", None, None)
        assert engine.app.breaker.safe_to_restart().running == 0


def test_handing_a_step_back_spends_no_attempt_and_no_retry(engine: Engine) -> None:
    engine.plant("step", group=GROUP, max_retries=0)
    with engine.worker() as runner:
        for _ in range(5):
            (claim,) = engine.claim(runner, "step")
            assert engine["step"].attempts == 1
            assert runner._finisher.hand_back(claim) == "Pending"
            step = engine["step"]
            assert (step.attempts, step.retries, step.reason, step.lease_worker) == (0, 0, "handed_back", None)
    engine.settle()
    assert (engine["step"].state, engine["step"].attempts) == ("Completed", 1)


@pytest.mark.parametrize("action", ["cancel", "skip", "fail"])
def test_a_step_that_was_ended_between_dispatch_and_claim_is_not_claimed(engine: Engine, action: str) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        engine.tick()
        assert engine.state("step") == "Dispatched"
        state = _end_from_outside(engine, action, "step")
        assert runner.claim(10) == []
        assert (engine["step"].state, engine["step"].attempts) == (state, 0)
