"""Which deaths count against a step: those in a row, of runs that had begun."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from stepwell.model.claimed import Claim
from stepwell.model.leases import LEASE_SECONDS
from stepwell.operate.dead_leases import RESCUE_SPREAD_SECONDS
from stepwell.run.ending import Ending, Verb
from stepwell.run.finish import MAX_RESCUES
from stepwell.run.inline import InlineRunner
from stepwell.store.engine import runs
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP

MORE_THAN_ENOUGH = MAX_RESCUES + 3


def _claim(engine: Engine, runner: InlineRunner, starting: int) -> dict[str, Claim]:
    """Claim what is ready; the first `starting` in free slots, the others ahead."""
    engine.clock.advance(RESCUE_SPREAD_SECONDS * MAX_RESCUES)  # beyond every delay
    runner.worker.heartbeat()
    engine.tick()
    claims = engine.app.database.transact(lambda tx: runner._claimer.claim(tx, 10, {}, starting))
    return {str(claim.step.label): claim for claim in claims}


def _die(engine: Engine) -> None:
    engine.clock.advance(LEASE_SECONDS + 1)
    engine.app.reaper().round()


def _deaths(engine: Engine, label: str, count: int) -> None:
    for _ in range(count):
        with engine.worker() as runner:
            assert label in _claim(engine, runner, starting=10)
            _die(engine)


ENDINGS: dict[str, Callable[[], Ending]] = {
    verb: partial(Ending, verb=verb, limit=20)
    for verb in ("retry_later", "throttle", "check_again", "not_completed", "hand_back")
}


@pytest.mark.parametrize("verb", ENDINGS)
def test_a_run_that_ends_without_a_death_starts_the_count_anew(engine: Engine, verb: Verb) -> None:
    engine.plant("step", group=GROUP)
    for _ in range(2):
        _deaths(engine, "step", MAX_RESCUES)
        assert (engine.state("step"), engine["step"].rescues) == ("Pending", MAX_RESCUES)
        with engine.worker() as runner:
            claim = _claim(engine, runner, starting=10)["step"]
            assert runner._finisher.write(claim, ENDINGS[verb]()) == "Pending"
        assert engine["step"].rescues == 0
    _deaths(engine, "step", MAX_RESCUES + 1)
    assert (engine.state("step"), engine["step"].reason) == ("Failed", "poison")


@pytest.mark.parametrize("verb", ["finish", "fail", "stop", "skip"])
@pytest.mark.parametrize("many", [False, True])
def test_the_last_run_of_a_step_leaves_no_deaths(engine: Engine, verb: Verb, many: bool) -> None:
    engine.plant("step", group=GROUP)
    _deaths(engine, "step", 1)
    with engine.worker() as runner:
        claim = _claim(engine, runner, starting=10)["step"]
        ending = Ending(verb=verb, reason="because")
        runner._finisher.write_all([(claim, ending)]) if many else runner._finisher.write(claim, ending)
    assert engine["step"].rescues == 0


def test_a_step_that_was_only_claimed_ahead_is_not_charged_for_the_death_of_its_worker(engine: Engine) -> None:
    engine.plant("running, ahead", group=GROUP)
    with engine.worker() as runner:
        assert list(_claim(engine, runner, starting=1)) == ["running", "ahead"]
        _die(engine)
    assert {label: (engine.state(label), engine[label].reason, engine[label].rescues) for label in engine.refs} == {
        "running": ("Pending", "rescued", 1),
        "ahead": ("Pending", "rescued", 0),
    }


def test_a_step_that_never_begins_survives_any_number_of_workers(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    for _ in range(MORE_THAN_ENOUGH):
        with engine.worker() as runner:
            assert list(_claim(engine, runner, starting=0)) == ["step"]
            _die(engine)
        assert (engine.state("step"), engine["step"].rescues) == ("Pending", 0)
        with engine.worker() as runner:  # its next claim is for a free slot: here it is handed back
            claim = _claim(engine, runner, starting=1)["step"]
            runner._finisher.hand_back(claim)


def test_a_step_that_may_have_killed_its_worker_is_claimed_for_a_free_slot_only(engine: Engine) -> None:
    """Otherwise one that kills its worker at once would never be charged."""
    engine.plant("suspect, other", group=GROUP)
    with engine.worker() as runner:
        _claim(engine, runner, starting=0)
        engine.clock.advance(LEASE_SECONDS + 1)
    engine.app.reaper().round()
    engine.plant("third", group=GROUP)
    with engine.worker() as runner:
        assert list(_claim(engine, runner, starting=0)) == ["third"]
        assert runner._claimer.has_left_some
        assert list(_claim(engine, runner, starting=1)) == ["suspect"]
        assert list(_claim(engine, runner, starting=10)) == ["other"]
        assert not runner._claimer.has_left_some


def test_a_step_that_kills_every_worker_fails_as_poison_although_it_was_claimed_ahead(engine: Engine) -> None:
    engine.plant("poison", group=GROUP)
    for _ in range(MORE_THAN_ENOUGH):
        if engine.state("poison") == "Failed":
            break
        with engine.worker() as runner:
            if not _claim(engine, runner, starting=0):
                assert _claim(engine, runner, starting=1)
            _die(engine)
    assert (engine.state("poison"), engine["poison"].reason, engine["poison"].rescues) == ("Failed", "poison", 4)


def test_a_step_that_was_claimed_ahead_is_charged_once_its_begin_is_on_record(engine: Engine) -> None:
    engine.plant("begun, ahead, stale", group=GROUP)
    with engine.worker() as runner:
        claims = _claim(engine, runner, starting=0)
        ids, tokens = [claims[label].step_id for label in ("begun", "stale")], [claims["begun"].token, 0]
        record = partial(runs.record_begun, ids=ids, tokens=tokens)
        assert engine.app.database.transact(record) == 1
        assert engine.app.database.transact(record) == 0
        _die(engine)
    assert {label: engine[label].rescues for label in engine.refs} == {"begun": 1, "ahead": 0, "stale": 0}


def test_a_step_that_was_claimed_ahead_and_handed_back_may_be_claimed_ahead_again(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    for _ in range(2):
        with engine.worker() as runner:
            runner._finisher.hand_back(_claim(engine, runner, starting=0)["step"])


def test_the_death_of_a_slot_is_charged_whatever_is_on_record(engine: Engine) -> None:
    """The supervisor knows that the run had begun: the slot's process had read its permit."""
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        claim = _claim(engine, runner, starting=0)["step"]
        assert runner._finisher.write(claim, Ending(verb="rescue", limit=3, error="killed")) == "Pending"
    assert engine["step"].rescues == 1
