"""Claims: which steps a worker takes, in which order, and without waiting for a tick."""

from __future__ import annotations

import select
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from stepwell import Handle, NewStep, State, Stepwell
from stepwell.model.claimed import Claim, ClaimedStep
from stepwell.model.clock import since_boot
from stepwell.model.ids import Uuid7Generator
from stepwell.run.children import NewChildren
from stepwell.run.claim import Claimer
from stepwell.run.ending import Ending
from stepwell.run.executors import ExecutorKind
from stepwell.run.finish import Finisher
from stepwell.run.worker_row import WorkerRow
from tests.conformance.support.engine import Engine, returned

QUEUES = ["default", "priority"]


class Hand:
    """A worker that only claims."""

    def __init__(self, app: Stepwell, queues: list[str], slots: int = 100) -> None:
        self._app = app
        self.row = WorkerRow(app.database, queues, {"behave"}, slots)
        self._claimer = Claimer(app.database, self.row)

    def claim(self, limit: int) -> list[Claim]:
        return self._app.database.transact(lambda tx: self._claimer.claim(tx, limit))

    def is_there_work(self) -> bool:
        return self._claimer.is_there_work()


@pytest.fixture
def hand(engine: Engine) -> Iterator[Hand]:
    hand = Hand(engine.app, QUEUES)
    yield hand
    hand.row.unregister()


def enqueue(engine: Engine, count: int, **settings: object) -> list[Handle[Any]]:
    return engine.app.enqueue_many([NewStep(action="behave", **settings) for _ in range(count)])  # type: ignore[arg-type]


def test_an_open_step_is_claimed_without_a_tick_and_its_history_shows_that_it_was_dispatched(
    engine: Engine, hand: Hand
) -> None:
    (ref,) = enqueue(engine, 1)
    assert hand.is_there_work()
    (claim,) = hand.claim(5)
    assert (claim.step_id, claim.token) == (ref.id, 1)
    history = [(change.from_state, change.to_state) for change in engine.app.history(ref)]
    assert history == [
        (None, State.PENDING), (State.PENDING, State.DISPATCHED), (State.DISPATCHED, State.RUNNING),
    ]  # fmt: skip
    assert engine.app.check_invariants() == []
    assert not hand.is_there_work()
    assert returned(Finisher(engine.app.database), claim, "done") is State.COMPLETED
    assert engine.app.sweep() == []


def test_what_a_tick_has_dispatched_and_what_is_open_are_claimed_by_age(engine: Engine, hand: Hand) -> None:
    older = enqueue(engine, 3)
    engine.app.dispatch_once()
    younger = enqueue(engine, 3)
    assert [claim.step_id for claim in hand.claim(5)] == [ref.id for ref in [*older, *younger]][:5]


def test_while_the_breaker_is_off_only_what_was_dispatched_before_is_claimed(engine: Engine, hand: Hand) -> None:
    (before,) = enqueue(engine, 1)
    engine.app.dispatch_once()
    enqueue(engine, 1)
    engine.app.breaker.pause(who="ann", why="deploy")
    assert [claim.step_id for claim in hand.claim(5)] == [before.id]
    engine.app.breaker.resume(who="ann")
    assert len(hand.claim(5)) == 1


def test_a_step_that_waits_for_something_is_not_claimed(engine: Engine, hand: Hand) -> None:
    engine.plant("root(first > second), other, after<other")
    claimed = hand.claim(10)
    assert {claim.step_id for claim in claimed} == {engine.refs["root"].id, engine.refs["other"].id}


def test_two_workers_never_claim_the_same_step(engine: Engine, hand: Hand) -> None:
    refs = enqueue(engine, 20)
    other = Hand(engine.app, QUEUES)
    claimed = [claim.step_id for _ in range(5) for claim in (*hand.claim(3), *other.claim(3))]
    assert sorted(claimed) == sorted(ref.id for ref in refs)


def test_the_urgent_come_first(engine: Engine, hand: Hand) -> None:
    enqueue(engine, 3)
    urgent = enqueue(engine, 2, priority="high")
    assert {claim.step_id for claim in hand.claim(2)} == {ref.id for ref in urgent}


@pytest.mark.parametrize("limit", [1, 2, 16])
def test_constant_urgent_work_does_not_starve_the_rest(engine: Engine, hand: Hand, limit: int) -> None:
    rest = {ref.id for ref in enqueue(engine, 4)}
    enqueue(engine, 200, priority="high")
    for _ in range(4 * 8):
        rest -= {claim.step_id for claim in hand.claim(limit)}
        if not rest:
            return
    raise AssertionError(f"still waiting behind urgent work: {rest}")


def test_a_slot_that_urgent_work_leaves_to_others_is_not_left_empty(engine: Engine, hand: Hand) -> None:
    enqueue(engine, 40, priority="high")
    for _ in range(10):
        assert len(hand.claim(4)) == 4


def test_queues_are_served_in_the_order_in_which_a_worker_names_them(engine: Engine) -> None:
    late = enqueue(engine, 2, queue="indicators")
    first = enqueue(engine, 2, queue="candles")
    hand = Hand(engine.app, ["candles", "indicators"])
    assert [claim.step_id for claim in hand.claim(4)] == [ref.id for ref in [*first, *late]]


def test_a_worker_claims_only_actions_that_it_knows(engine: Engine, hand: Hand) -> None:
    (unknown,) = engine.app.enqueue_many([NewStep(action="something else")])
    enqueue(engine, 1)
    assert len(hand.claim(5)) == 1
    assert not hand.is_there_work()
    step = engine.app.step(unknown)
    assert (step.state, step.attempts) == (State.PENDING, 0)
    assert "no live worker serves" in engine.app.explain(step).summary


def test_a_lease_has_a_deadline_only_if_the_step_has_a_timeout(engine: Engine, hand: Hand) -> None:
    endless, short = enqueue(engine, 1)[0], enqueue(engine, 1, timeout=10, cooldown=5)[0]
    hand.claim(2)
    assert engine.app.step(endless).lease_deadline is None
    deadline = engine.app.step(short).lease_deadline
    assert deadline is not None
    assert 15 < (deadline - engine.clock.now()).total_seconds() <= 60


def test_a_dependent_of_a_step_need_not_wait_for_a_tick(engine: Engine, hand: Hand) -> None:
    engine.plant("first > second > third")
    engine.plant("other, after<other")
    engine.app.dispatcher().run_until_quiet()  # the first tick gives new steps of a block their turn
    finisher = Finisher(engine.app.database)
    order = []
    while claims := hand.claim(10):
        order.append(sorted(engine.app.step(claim.step_id).name for claim in claims))
        finisher.write_all([(claim, Ending(verb="finish", response="null")) for claim in claims])
    assert order == [["first", "other"], ["after", "second"], ["third"]]
    engine.app.dispatcher().run_until_quiet()
    assert engine.app.check_invariants() == []
    assert engine.app.sweep() == []


@pytest.mark.parametrize("born", ["before it", "with its end"])
def test_the_first_children_need_not_wait_for_a_tick_after_their_parent(engine: Engine, hand: Hand, born: str) -> None:
    engine.plant("parent(one, two > three)" if born == "before it" else "parent")
    engine.app.dispatcher().run_until_quiet()
    (claim,) = hand.claim(10)
    family = NewChildren(engine.refs["parent"], None, Uuid7Generator())
    if born == "with its end":
        one, two, three = (NewStep(action="behave", label=label) for label in ("one", "two", "three"))
        family.add_block([[one, two], three])
    finisher = Finisher(engine.app.database)
    ending = Ending(verb="finish", response="null", children=family.take())
    assert finisher.write_all([(claim, ending)]) == [State.RUNNING]
    order = []
    while claims := hand.claim(10):
        order.append(sorted(engine.app.step(claim.step_id).name for claim in claims))
        finisher.write_all([(claim, Ending(verb="finish", response="null")) for claim in claims])
    assert order == [["one", "two"], ["three"]]
    engine.app.dispatcher().run_until_quiet()
    assert engine.state("parent") == "Completed"
    assert engine.app.sweep() == []


def test_a_step_with_several_dependencies_is_opened_by_the_last_of_them(engine: Engine, hand: Hand) -> None:
    engine.plant("left, right, join<left+right")
    engine.plant("one, two > behind")
    engine.app.dispatcher().run_until_quiet()
    finisher = Finisher(engine.app.database)
    for claim in hand.claim(10):
        finisher.write_all([(claim, Ending(verb="finish", response="null"))])
        waiting = [engine.state(label) for label in ("join", "behind")]
        assert waiting == ["Pending", "Pending"]
    assert {engine.app.step(claim.step_id).name for claim in hand.claim(10)} == {"join", "behind"}


def test_the_end_of_a_step_opens_nothing_in_a_paused_workflow(engine: Engine, hand: Hand) -> None:
    engine.plant("first > second")
    engine.app.dispatcher().run_until_quiet()
    (claim,) = hand.claim(5)
    engine.app.pause_workflow(engine.refs["first"], who="ann")
    Finisher(engine.app.database).write_all([(claim, Ending(verb="finish", response="null"))])
    assert hand.claim(5) == []
    engine.app.resume_workflow(engine.refs["first"], who="ann")
    engine.app.dispatcher().run_until_quiet()
    assert [claim.step_id for claim in hand.claim(5)] == [engine.refs["second"].id]


def test_a_claimed_step_is_the_row_column_by_column(engine: Engine) -> None:
    """It is made of columns in their order, without their names."""
    limits: dict[str, Any] = {"timeout": 7, "cooldown": 3, "max_retries": 5}
    engine.add("step", queue="candles", relatable=("order", 8), index=9, block=str(uuid4()), **limits)
    engine.change(
        "UPDATE steps SET attempts = 11, retries = 2, double_checks = 4, lease_token = 30, stage = 'complete', "
        "response = '12', checkpoint = '13' WHERE id = :id",
        id=engine.refs["step"].id,
    )
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "step")
    (row,) = engine.sql("SELECT * FROM steps WHERE id = :id", id=claim.step_id)
    told = {name: getattr(claim.step, name) for name in ClaimedStep.__struct_fields__}
    assert told.pop("was_open") == (row["claim_token"] == row["lease_token"])
    assert told == {name: row[name] for name in told}
    assert len(set(told.values()) - {None, False, True}) >= 18, "too much alike to tell columns apart"


def test_a_worker_whose_row_has_expired_claims_nothing_until_its_next_heartbeat(engine: Engine, hand: Hand) -> None:
    """The reaper would rescue the steps at once, and they would run twice."""
    enqueue(engine, 1)
    hand.row.expires_at = since_boot()
    assert hand.claim(5) == []
    assert hand.row.heartbeat()
    (claim,) = hand.claim(5)
    assert claim.begin_before == hand.row.expires_at > since_boot()


def test_a_heartbeat_for_a_deleted_row_does_not_make_it_fresh(engine: Engine) -> None:
    hand = Hand(engine.app, QUEUES)
    enqueue(engine, 1)
    hand.row.unregister()
    hand.row.expires_at = since_boot()
    assert not hand.row.heartbeat()
    assert hand.claim(5) == []


@pytest.mark.one_database
@pytest.mark.parametrize("executor", ["thread", "async"])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_claim_does_not_begin_in_this_process_after_the_lease_of_its_worker_has_expired(
    app: Stepwell, executor: ExecutorKind, is_async: bool
) -> None:
    ran = []

    async def act_async() -> None:
        ran.append("async")

    app.job(name="act")(act_async if is_async else lambda: ran.append("sync"))
    app.enqueue("act")
    worker = app.worker(executor=executor)
    (claim,) = app.database.transact(lambda tx: worker._exchange._claim(tx, 1))
    starts = worker._executor
    starts.start(deque([replace(claim, begin_before=since_boot())]), None)
    while not (ended := starts.collect()):
        select.select(starts.files(), [], [], 1.0)
    assert ([ending.verb for _, ending in ended], ran) == (["hand_back"], [])
    worker._in_flight.add_ending(*ended[0], 0.0)
    worker._exchange.write_last()
    starts.close()
    worker.row.unregister()


def test_an_inline_runner_that_was_suspended_beyond_its_lease_returns_what_it_has_not_begun(engine: Engine) -> None:
    app = engine.app
    runner = app.inline_runner(slots=3)

    def suspended(step: object, state: object) -> None:
        runner.worker.expires_at = since_boot()

    runner._watch = suspended
    enqueue(engine, 3)
    app.dispatch_once()
    assert runner.round() == 1
    states = Counter((str(step.state), step.attempts) for step in app.steps())
    assert states == {("Completed", 1): 1, ("Pending", 0): 2}
    runner.close()
