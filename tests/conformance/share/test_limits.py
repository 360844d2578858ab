"""Limits on what runs at once: in total, per queue, per action, per concurrency key; strategies at the claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from stepwell import DivideTotalValueEqually, Handle, InvalidStep, NewStep, State, Stepwell, StepwellError
from stepwell.model.claimed import Claim
from stepwell.model.leases import LEASE_SECONDS
from stepwell.run.claim import Claimer
from stepwell.run.ending import Ending
from stepwell.run.finish import Finisher
from stepwell.run.worker_row import WorkerRow
from stepwell.service.crew import Crew
from stepwell.share.headroom import Kind
from stepwell.share.strategies import Strategy, Weight
from tests.conformance.support.engine import Engine, failed, returned

ACTIONS = {"behave", "mail", "report"}


class Hand:
    """A worker that claims and ends what it is told to."""

    def __init__(
        self,
        app: Stepwell,
        strategy: Strategy | None = None,
        weights: Mapping[str, Weight] | None = None,
        actions: Collection[str] = frozenset(ACTIONS),
    ) -> None:
        self._app = app
        self._row = WorkerRow(app.database, ["default", "candles"], actions, 1_000)
        self._claimer = Claimer(app.database, self._row, strategy, weights or {})
        self._finisher = Finisher(app.database)

    def claim(self, limit: int, running: Mapping[str, int] | None = None) -> list[Claim]:
        return self._app.database.transact(lambda tx: self._claimer.claim(tx, limit, running or {}))

    def live_on(self) -> None:
        self._row.heartbeat()

    def finish(self, claims: list[Claim]) -> None:
        for claim in claims:
            assert returned(self._finisher, claim, None) is not None


@pytest.fixture
def hand(engine: Engine) -> Hand:
    return Hand(engine.app)


def enqueue(engine: Engine, count: int, action: str = "behave", **settings: object) -> list[Handle[Any]]:
    return engine.app.enqueue_many([NewStep(action=action, **settings) for _ in range(count)])  # type: ignore[arg-type]


def test_a_limit_applies_to_the_next_claim_after_it_was_set_or_removed(engine: Engine, hand: Hand) -> None:
    enqueue(engine, 9)
    assert len(hand.claim(2)) == 2
    assert len(hand.claim(1)) == 1  # by now it expects no limits
    engine.app.limits.set("total", maximum=4)
    assert len(hand.claim(5)) == 1
    engine.app.limits.set("total", maximum=None)
    assert len(hand.claim(5)) == 5


def test_no_more_than_the_total_run_over_all_workers(engine: Engine, hand: Hand) -> None:
    engine.app.limits.set("total", maximum=3)
    enqueue(engine, 10)
    other = Hand(engine.app)
    first, second = hand.claim(2), other.claim(5)
    assert (len(first), len(second), len(hand.claim(5))) == (2, 1, 0)
    hand.finish(first)
    assert len(other.claim(5)) == 2


@pytest.mark.parametrize(("kind", "name"), [("queue", "candles"), ("action", "mail")])
def test_a_full_queue_or_action_does_not_hide_the_others(engine: Engine, hand: Hand, kind: str, name: str) -> None:
    engine.app.limits.set(kind, name, 2)  # type: ignore[arg-type]
    limited = {"queue": "candles"} if kind == "queue" else {}
    enqueue(engine, 50, "mail", **limited)
    enqueue(engine, 4, "report")
    assert Counter(claim.step.action for claim in hand.claim(10)) == {"mail": 2, "report": 4}
    assert hand.claim(10) == []


def test_a_limit_of_zero_stops_claims_until_it_is_removed(engine: Engine, hand: Hand) -> None:
    engine.app.limits.set("action", "mail", 0)
    (mail,) = enqueue(engine, 1, "mail")
    assert hand.claim(5) == []
    assert "action 'mail' is at its limit (0): 0 steps are running" in engine.app.explain(mail).summary
    engine.app.limits.set("action", "mail", None)
    assert len(hand.claim(5)) == 1
    assert engine.app.limits.all() == {}


def test_a_cancelled_step_counts_against_the_limit_until_its_lease_is_released(engine: Engine, hand: Hand) -> None:
    engine.app.limits.set("total", maximum=1)
    enqueue(engine, 2)
    (claim,) = hand.claim(5)
    engine.app.cancel(claim.step_id, who="ann")
    assert hand.claim(5) == []
    assert Finisher(engine.app.database).release_lease(claim)
    assert len(hand.claim(5)) == 1


def test_a_parent_that_waits_for_its_children_takes_no_room(engine: Engine, hand: Hand) -> None:
    engine.app.limits.set("total", maximum=1)
    engine.plant("root(child)")
    hand.finish(hand.claim(5))
    assert engine.state("root") == "Running"
    engine.app.dispatcher().run_until_quiet()
    assert [claim.step_id for claim in hand.claim(5)] == [engine.refs["child"].id]


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("kind", "name", "maximum"),
    [("total", "x", 1), ("queue", "", 1), ("colour", "red", 1), ("queue", "default", -1), ("queue", "default", True)],
)
def test_a_limit_that_makes_no_sense_is_refused(engine: Engine, kind: str, name: str, maximum: int) -> None:
    with pytest.raises(StepwellError):
        engine.app.limits.set(kind, name, maximum)  # type: ignore[arg-type]
    assert engine.app.limits.all() == {}


def start_with(engine: Engine, max_running: int | None) -> int | None:
    """A worker starts with code that says so; returns the limit that holds from then on."""
    engine.app.limits.apply_declared({"mail": max_running})
    return engine.app.limits.all().get(("action", "mail"))


def test_the_limit_of_a_job_goes_with_its_code(engine: Engine) -> None:
    assert [start_with(engine, most) for most in (2, 3, 3, None, None, 1)] == [2, 3, 3, None, None, 1]


def test_a_worker_writes_down_what_its_jobs_say(engine: Engine) -> None:
    engine.app.limits.apply_declared({"mail": 5})
    engine.app.job(name="letter", max_running=2)(lambda: None)
    engine.app.job(name="mail")(lambda: None)
    engine.app.worker().row.unregister()
    assert engine.app.limits.all() == {("action", "letter"): 2}


@pytest.mark.parametrize("operators", [7, 0, None])
def test_a_limit_of_an_operator_overrides_that_of_the_job(engine: Engine, operators: int | None) -> None:
    start_with(engine, 2)
    engine.app.limits.set("action", "mail", operators)
    assert [start_with(engine, most) for most in (2, 3, 2)] == [operators] * 3
    engine.app.limits.set("action", "mail", 2)  # what the code said last: it is the code's again
    assert [start_with(engine, most) for most in (3, None)] == [3, None]


def test_a_limit_that_only_an_operator_set_is_not_touched(engine: Engine) -> None:
    engine.app.limits.set("action", "mail", 7)
    assert [start_with(engine, most) for most in (None, 2, None)] == [7, 7, 7]


def test_the_limit_of_a_removed_job_holds_for_workers_that_still_have_it_and_for_no_others(engine: Engine) -> None:
    start_with(engine, 1)
    older = Hand(engine.app, actions=["mail"])
    engine.app.limits.apply_declared({"report": None})  # a worker of newer code, or of another program
    newer = Hand(engine.app, actions=["report"])
    assert engine.app.limits.all() == {("action", "mail"): 1}
    enqueue(engine, 5, "mail")
    enqueue(engine, 5, "report")
    assert (len(older.claim(9)), len(older.claim(9)), len(newer.claim(9))) == (1, 0, 5)


def test_a_job_that_is_defined_again_without_its_limit_removes_it(engine: Engine) -> None:
    start_with(engine, 1)
    engine.app.limits.apply_declared({"report": None})
    assert start_with(engine, None) is None
    assert start_with(engine, 1) == 1  # nobody has lifted it by hand: so it is the code's again


# keys ---------------------------------------------------------------------------------------------------------------


def test_steps_with_the_same_key_run_one_after_the_other(engine: Engine, hand: Hand) -> None:
    refs = enqueue(engine, 3, concurrency_key="account-7")
    ran = []
    for _ in range(3):
        engine.app.dispatcher().run_until_quiet()
        claims = hand.claim(5)
        assert len(claims) == 1
        assert hand.claim(5) == []
        ran += [claim.step_id for claim in claims]
        hand.finish(claims)
    assert ran == [ref.id for ref in refs]
    assert engine.app.sweep() == []


def test_as_many_steps_of_a_key_run_as_its_limit_says(engine: Engine, hand: Hand) -> None:
    enqueue(engine, 6, concurrency_key="k", concurrency_limit=2)
    for _ in range(3):
        engine.app.dispatcher().run_until_quiet()
        claims = hand.claim(10)
        assert len(claims) == 2
        hand.finish(claims)


def test_many_steps_behind_a_taken_key_hide_nobody(engine: Engine, hand: Hand) -> None:
    enqueue(engine, 300, concurrency_key="k")
    other = enqueue(engine, 2, concurrency_key="l")[0]
    free = enqueue(engine, 1)[0]
    engine.app.dispatcher().run_until_quiet()
    assert {claim.step_id for claim in hand.claim(5)} >= {other.id, free.id}


def test_a_step_that_waits_for_its_key_says_who_has_it(engine: Engine, hand: Hand) -> None:
    first, second = enqueue(engine, 2, concurrency_key="k")
    engine.app.dispatcher().run_until_quiet()
    hand.claim(1)
    explanation = engine.app.explain(second)
    assert f"step {first.id} (behave, Running)" in explanation.summary
    assert [(o.condition, o.steps) for o in explanation.obstacles] == [("key", (first.id,))]


@pytest.mark.parametrize("end", ["cancel", "skip", "retry later", "hand back", "fail"])
def test_a_key_is_free_again_however_its_step_ends(engine: Engine, hand: Hand, end: str) -> None:
    first, second = enqueue(engine, 2, concurrency_key="k")
    engine.app.dispatcher().run_until_quiet()
    (claim,) = hand.claim(5)
    finisher = Finisher(engine.app.database)
    match end:
        case "cancel" | "skip":
            getattr(engine.app, end)(first, who="ann")
            engine.app.dispatcher().run_until_quiet()
            assert hand.claim(5) == []  # its process has not let go
            finisher.release_lease(claim)
        case "hand back":
            finisher.hand_back(claim)
        case "fail":
            failed(finisher, claim, "no")
        case _:
            finisher.write(claim, Ending(verb="retry_later", in_=60))
    engine.app.dispatcher().run_until_quiet()
    next_in_line = first if end == "hand back" else second  # what was handed back is open again, and older
    assert [claim.step_id for claim in hand.claim(5)] == [next_in_line.id]


def test_a_step_that_was_cancelled_while_it_waited_for_its_key_leaves_no_trace(engine: Engine, hand: Hand) -> None:
    _, second, third = enqueue(engine, 3, concurrency_key="k")
    engine.app.dispatcher().run_until_quiet()
    claims = hand.claim(5)
    engine.app.cancel(second, who="ann")
    hand.finish(claims)
    engine.app.dispatcher().run_until_quiet()
    assert [claim.step_id for claim in hand.claim(5)] == [third.id]
    assert engine.app.check_invariants() == []
    assert engine.app.sweep() == []


def test_more_steps_of_a_key_than_may_run_are_reported(engine: Engine, hand: Hand) -> None:
    first, _ = enqueue(engine, 2, concurrency_key="k")
    engine.app.dispatcher().run_until_quiet()
    engine.change("UPDATE steps_agenda SET key_blocked = false")  # what no statement of the engine does
    claims = hand.claim(5)
    (violation,) = engine.app.check_invariants()
    assert (violation.invariant, violation.step_id) == ("concurrency keys stay within their limits", first.id)
    assert violation.finding == "concurrency key k exceeds its limit: 2 steps hold a lease, limit 1"
    hand.finish(claims)


def test_a_step_that_nobody_serves_does_not_keep_its_key_from_the_others(engine: Engine, hand: Hand) -> None:
    unknown, elsewhere = enqueue(engine, 1, "unheard of", concurrency_key="k") + enqueue(
        engine, 1, concurrency_key="k", queue="indicators"
    )
    refs = enqueue(engine, 2, concurrency_key="k")
    for ref in refs:
        engine.app.dispatcher().run_until_quiet()
        claims = hand.claim(5)
        assert [claim.step_id for claim in claims] == [ref.id]
        hand.finish(claims)
    assert "no live worker serves" in engine.app.explain(unknown).summary
    assert [obstacle.condition for obstacle in engine.app.explain(elsewhere).obstacles] == ["workers"]
    assert engine.app.sweep() == []


def test_the_limit_of_a_key_is_that_of_the_first_step_that_can_begin(engine: Engine, hand: Hand) -> None:
    enqueue(engine, 1, "unheard of", concurrency_key="k", concurrency_limit=1)
    refs = enqueue(engine, 3, concurrency_key="k", concurrency_limit=2)
    engine.app.dispatcher().run_until_quiet()
    assert [claim.step_id for claim in hand.claim(5)] == [ref.id for ref in refs[:2]]


def test_a_worker_that_comes_finds_the_keys_that_waited_for_it(engine: Engine) -> None:
    first, _ = enqueue(engine, 2, concurrency_key="k")
    engine.app.dispatcher().run_until_quiet()
    hand = Hand(engine.app)
    engine.app.dispatcher().run_until_quiet()
    assert [claim.step_id for claim in hand.claim(5)] == [first.id]


@pytest.mark.parametrize("end", ["signs off", "dies"])
def test_a_key_is_not_lost_with_the_worker_of_the_step_that_was_admitted(engine: Engine, hand: Hand, end: str) -> None:
    other = WorkerRow(engine.app.database, ["indicators"], ACTIONS, 1)
    first = enqueue(engine, 1, concurrency_key="k", queue="indicators")[0]
    second = enqueue(engine, 1, concurrency_key="k")[0]
    engine.app.dispatch_once("nobody's")  # lets keys pass, and dispatches nothing
    assert (hand.claim(5), engine.app.explain(second).obstacles[0].steps) == ([], (first.id,))
    if end == "signs off":
        other.unregister()
    else:
        engine.clock.advance(LEASE_SECONDS - 1)
        hand.live_on()
        engine.clock.advance(2)
        engine.app.dispatch_once("nobody's")
        assert (hand.claim(5), engine.app.explain(second).obstacles[0].steps) == ([], (first.id,))
        engine.app.reaper().round()
    engine.app.dispatch_once("nobody's")
    assert [claim.step_id for claim in hand.claim(5)] == [second.id]


def test_a_worker_that_was_taken_for_dead_claims_its_keys_after_its_next_heartbeat(engine: Engine) -> None:
    row = WorkerRow(engine.app.database, ["default"], ACTIONS, 5)
    engine.clock.advance(LEASE_SECONDS + 1)
    (first,) = enqueue(engine, 1, concurrency_key="k")
    engine.app.dispatcher().run_until_quiet()
    assert "no live worker serves" in engine.app.explain(first).summary
    row.heartbeat()
    engine.app.dispatcher().run_until_quiet()
    claimer = Claimer(engine.app.database, row)
    assert [c.step_id for c in engine.app.database.transact(lambda tx: claimer.claim(tx, 5))] == [first.id]


@pytest.mark.parametrize(("kind", "name"), [("queue", "candles"), ("action", "mail")])
def test_a_step_under_a_limit_of_nothing_does_not_keep_its_key(
    engine: Engine, hand: Hand, kind: Kind, name: str
) -> None:
    (first,) = enqueue(engine, 1, "mail", concurrency_key="k", queue="candles")
    (second,) = enqueue(engine, 1, "report", concurrency_key="k")
    engine.app.dispatch_once("nobody's")
    engine.app.limits.set(kind, name, 0)
    engine.app.dispatch_once("nobody's")
    claims = hand.claim(5)
    assert [claim.step_id for claim in claims] == [second.id]
    assert "limit" in [obstacle.condition for obstacle in engine.app.explain(first).obstacles]
    hand.finish(claims)
    engine.app.limits.set(kind, name, None)
    engine.app.dispatch_once("nobody's")
    assert [claim.step_id for claim in hand.claim(5)] == [first.id]


def test_the_inline_runner_obeys_keys(engine: Engine) -> None:
    refs = enqueue(engine, 5, concurrency_key="k")
    assert engine.app.run_until_idle() == 5
    assert {engine.app.step(ref).state for ref in refs} == {State.COMPLETED}


def test_a_key_may_be_a_function_of_the_arguments(engine: Engine) -> None:
    @engine.app.job(concurrency_key=lambda account: f"account-{account}")
    def sync(account: int) -> None: ...

    assert engine.app.step(sync.enqueue(7)).concurrency_key == "account-7"


@pytest.mark.one_database
def test_a_limit_of_a_key_below_one_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidStep, match="concurrency_limit is 0"):
        enqueue(engine, 1, concurrency_key="k", concurrency_limit=0)


# strategies ---------------------------------------------------------------------------------------------------------


def test_slots_are_divided_by_weight_however_many_wait(engine: Engine) -> None:
    enqueue(engine, 100, "mail")
    enqueue(engine, 5, "report")
    hand = Hand(engine.app, DivideTotalValueEqually(), {"mail": 3, "report": 1})
    assert Counter(claim.step.action for claim in hand.claim(8)) == {"mail": 6, "report": 2}


def test_what_runs_already_counts_for_the_shares(engine: Engine) -> None:
    enqueue(engine, 100, "mail")
    enqueue(engine, 5, "report")
    hand = Hand(engine.app, DivideTotalValueEqually())
    assert Counter(claim.step.action for claim in hand.claim(2, {"mail": 4})) == {"report": 2}


WEIGHTS = {"mail": 3, "report": 2, "behave": 1}


@pytest.mark.parametrize("limit", [None, "total", "queue"])
def test_claims_of_one_are_shared_by_weight_over_time(engine: Engine, limit: Kind | None) -> None:
    for action in WEIGHTS:
        enqueue(engine, 60, action)
    if limit:
        engine.app.limits.set(limit, "default" if limit == "queue" else "", 1)
    hand = Hand(engine.app, DivideTotalValueEqually(), WEIGHTS)
    ran: Counter[str] = Counter()
    for _ in range(60):
        claims = hand.claim(5 if limit else 1)
        ran.update(claim.step.action for claim in claims)
        hand.finish(claims)
    assert ran == {"mail": 30, "report": 20, "behave": 10}


def test_a_worker_with_one_slot_runs_every_job_by_its_weight(engine: Engine) -> None:
    ran: list[str] = []

    def note(name: str) -> None:
        ran.append(name)
        if len(ran) == 60:
            crew.stop()

    for name, weight in WEIGHTS.items():
        engine.app.job(name=f"{name} by weight", weight=weight)(note)
        engine.app.enqueue_many(NewStep(action=f"{name} by weight", arguments={"name": name}) for _ in range(60))
    worker = engine.app.worker(slots=1, strategy=DivideTotalValueEqually())
    crew = Crew([worker])
    crew.run()
    shares = Counter(ran[:60])
    assert all(abs(shares[name] - 10 * weight) <= 10 for name, weight in WEIGHTS.items()), shares
    assert shares["behave"] >= 5


class Broken(Strategy):
    """A strategy that raises."""

    def grants(self, slots: int, waiting: object, weights: object, running: object) -> None:
        raise RuntimeError("no idea")


@pytest.mark.one_database
def test_a_strategy_that_raises_is_logged_and_oldest_first_serves(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    refs = enqueue(engine, 4)
    assert [claim.step_id for claim in Hand(engine.app, Broken()).claim(3)] == [ref.id for ref in refs[:3]]
    assert "strategy Broken raised" in caplog.text


class InTurn(Strategy):
    """Somebody's own: each claim is for one action alone, each worker begins with the first, and mixes them."""

    order = "by weight"

    def __init__(self) -> None:
        self._claims = 0

    def for_worker(self, slots: int) -> InTurn:
        assert slots == 1_000
        return InTurn()

    def grants(
        self, slots: int, waiting: Mapping[str, int], weights: object, running: object
    ) -> Mapping[str, int] | None:
        self._claims += 1
        if self._claims > 2:
            return {action: min(2, count) for action, count in waiting.items()}
        return {sorted(waiting)[self._claims - 1]: slots}


def test_a_strategy_of_ones_own_may_have_a_memory_for_each_worker_and_say_the_order(engine: Engine) -> None:
    enqueue(engine, 9, "mail")
    enqueue(engine, 9, "report")
    strategy = InTurn()
    one, other = Hand(engine.app, strategy), Hand(engine.app, strategy)
    claimed = [[claim.step.action for claim in hand.claim(2)] for hand in (one, one, other)]
    assert claimed == [["mail", "mail"], ["report", "report"], ["mail", "mail"]]
    assert [claim.step.action for claim in one.claim(4)] == ["mail", "report", "mail", "report"]
