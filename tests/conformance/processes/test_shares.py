"""Priority strategies under load: each class gets its share of the slots, and none starves."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from stepwell import NewStep, Stepwell
from stepwell.model.claimed import Claim
from stepwell.processes.queueing import QUEUE
from stepwell.run.claim import Claimer
from stepwell.run.ending import Ending
from stepwell.run.worker_row import WorkerRow
from stepwell.store import Transaction
from stepwell.testing import ManualClock
from tests.conformance.support.engine import Engine

PRIORITIES = {"gold": 20, "silver": 10, "bronze": 4}
RUNS, ROUND_SECONDS = 2_000, 0.25


def configured(app: Stepwell, slots: int, strategy: str = "DivideTotalValueEqually") -> None:
    """Classes of four parts each."""
    for name in PRIORITIES:
        app.job(name=name)(lambda: None)
    split = {"timeout": 60, "cooldown": 0, "range_strategy": "HashRange", "resources": 4, "entity_uid": "customers.id"}
    app.main_processes.configure(
        {
            "max_execution_slots": slots,
            "priority_strategy": strategy,
            "main_processes": {name: {"tasks": [{"class": name}]} for name in PRIORITIES},
            "tasks": {name: {"class": name, "priority": priority, **split} for name, priority in PRIORITIES.items()},
        }
    )
    app.main_processes.apply_to_workers()


class Executors:
    """Workers that want more slots than there are, on a clock that the test moves from round to round."""

    def __init__(self, app: Stepwell, clock: ManualClock, workers: int, slots: int, seconds: dict[str, float]) -> None:
        self._app, self._clock, self._slots, self._seconds = app, clock, slots, seconds
        self._chance = random.Random(7)
        self._most = slots // workers + 1
        rows = [
            WorkerRow(app.database, [QUEUE], set(PRIORITIES), self._most, alive_seconds=1e6) for _ in range(workers)
        ]
        weights = app.jobs.weights()
        self._claimers = [Claimer(app.database, row, app.main_processes.strategy(), weights) for row in rows]
        self._running: list[list[tuple[float, Claim]]] = [[] for _ in rows]  # with the time when each is over
        self.order: list[str] = []
        self.held: Counter[str] = Counter()  # slots, in rounds

    def run(self, runs: int) -> None:
        while len(self.order) < runs:
            for which in self._chance.sample(range(len(self._claimers)), len(self._claimers)):
                self._exchange(which)
            self.held.update(claim.step.action for running in self._running for _, claim in running)
            self._clock.advance(ROUND_SECONDS)

    def _exchange(self, which: int) -> None:
        """As a worker does: write what has ended, and claim, in one transaction."""
        now = self._clock.now().timestamp()
        over = [claim for end, claim in self._running[which] if end <= now]
        running = [(end, claim) for end, claim in self._running[which] if end > now]
        claimer, free = self._claimers[which], self._most - len(running)
        if not free or (not over and sum(map(len, self._running)) == self._slots):
            return
        endings = [(claim, Ending(verb="finish", duration=0.1)) for claim in over]
        _, claims = self._app._finisher.write_all_and(endings, lambda tx: claimer.claim(tx, free))
        self.order += [claim.step.action for claim in claims]
        lengths = [self._seconds[claim.step.action] * self._chance.uniform(0.8, 1.2) for claim in claims]
        self._running[which] = running + [(now + each, claim) for each, claim in zip(lengths, claims, strict=True)]


def wait_in_line(app: Stepwell, counts: dict[str, int]) -> None:
    app.enqueue_many([NewStep(action=name, queue=QUEUE) for name, count in counts.items() for _ in range(count)])


def shares(counts: Counter[str]) -> dict[str, float]:
    return {name: counts[name] / counts.total() for name in PRIORITIES}


PROMISED = {
    12: {"gold": 20 / 34, "silver": 10 / 34, "bronze": 4 / 34},
    5: {"gold": 8 / 15, "silver": 4 / 15, "bronze": 1 / 5},
}


def check_two_thousand_runs(app: Stepwell, clock: ManualClock, slots: int, workers: int) -> None:
    configured(app, slots)
    wait_in_line(app, {"gold": 1_300, "silver": 700, "bronze": 500})
    executors = Executors(app, clock, workers, slots, dict.fromkeys(PRIORITIES, 1.0))
    executors.run(RUNS)
    order = executors.order[:RUNS]
    assert shares(Counter(order)) == pytest.approx(PROMISED[slots], rel=0.1)
    assert shares(executors.held) == pytest.approx(PROMISED[slots], rel=0.1)
    windows = [order[start : start + 50] for start in range(0, RUNS, 50)]
    assert all(set(window) == set(PRIORITIES) for window in windows), "a class had no run among 50"


def test_the_latest_runs_are_found_however_much_else_has_run_since(engine: Engine) -> None:
    """Among 50 changes for each run that was asked for, there was none."""
    app = engine.app
    for label in ("Gold", "Silver"):
        engine.add(label)
        engine.change("UPDATE steps SET belongs_to = 'process' WHERE label = :label", label=label)
        engine.settle()
    for _ in range(20):
        engine.app.enqueue("behave", {"outcome": "ok"})
    engine.settle()
    assert [(share.task_class, share.runs) for share in app.main_processes.shares(1)] == [("Silver", 1)]
    assert [(share.task_class, share.runs) for share in app.main_processes.shares(2)] == [("Gold", 1), ("Silver", 1)]


@pytest.mark.slow
def test_each_class_gets_its_share_of_two_thousand_runs_and_none_starves(app: Stepwell, clock: ManualClock) -> None:
    """Twelve slots make shares of 7.06, 3.53 and 1.41."""
    check_two_thousand_runs(app, clock, slots=12, workers=4)


@pytest.mark.slow
@pytest.mark.one_database
def test_a_class_whose_share_is_less_than_a_slot_gets_one(app: Stepwell, clock: ManualClock) -> None:
    """Five slots make 2.94, 1.47 and 0.59: bronze gets one, and the others divide four."""
    check_two_thousand_runs(app, clock, slots=5, workers=2)


def test_slots_are_divided_not_runs(app: Stepwell, clock: ManualClock) -> None:
    """Runs of bronze take six times as long: it gets its share of the slots, and so a sixth of the runs."""
    configured(app, 12)
    wait_in_line(app, {"gold": 500, "silver": 250, "bronze": 60})
    executors = Executors(app, clock, 3, 12, {"gold": 1.0, "silver": 1.0, "bronze": 6.0})
    executors.run(400)
    assert shares(executors.held) == pytest.approx(PROMISED[12], rel=0.1)


def test_a_class_that_was_idle_has_saved_up_nothing(app: Stepwell, clock: ManualClock) -> None:
    configured(app, 12)
    wait_in_line(app, {"gold": 400, "silver": 200})
    executors = Executors(app, clock, 3, 12, dict.fromkeys(PRIORITIES, 1.0))
    executors.run(200)
    wait_in_line(app, {"bronze": 100})
    executors.run(320)
    assert 10 <= Counter(executors.order[200:])["bronze"] <= 18  # 14 are its share


def test_a_claim_that_is_rolled_back_leaves_the_shares_as_they_were(app: Stepwell, clock: ManualClock) -> None:
    configured(app, 12)
    wait_in_line(app, dict.fromkeys(PRIORITIES, 20))
    executors = Executors(app, clock, 1, 12, dict.fromkeys(PRIORITIES, 1.0))
    executors.run(12)
    before = app.database.read(memory)

    def claim_and_fail(tx: Transaction) -> None:
        executors._claimers[0].claim(tx, 5)
        raise ZeroDivisionError

    app.limits.set("queue", QUEUE, 20)
    with pytest.raises(ZeroDivisionError):
        app.database.transact(claim_and_fail)
    assert before is not None
    assert app.database.read(memory) == before


def test_a_memory_that_cannot_be_read_is_replaced(app: Stepwell, clock: ManualClock) -> None:
    configured(app, 3)
    wait_in_line(app, dict.fromkeys(PRIORITIES, 20))
    app.database.transact(lambda tx: tx.execute("UPDATE steps_limits SET shares = 'no json'", {}))
    executors = Executors(app, clock, 1, 3, dict.fromkeys(PRIORITIES, 1.0))
    executors.run(3)
    assert sorted(executors.order) == sorted(PRIORITIES)
    assert app.database.read(memory) != "no json"


def test_oldest_first_keeps_no_shares(app: Stepwell, clock: ManualClock) -> None:
    configured(app, 3, "SortByDateCreated")
    wait_in_line(app, dict.fromkeys(PRIORITIES, 5))
    Executors(app, clock, 1, 3, dict.fromkeys(PRIORITIES, 1.0)).run(6)
    assert app.database.read(memory) is None


def memory(tx: Transaction) -> str | None:
    (row,) = tx.fetch("SELECT shares FROM steps_limits WHERE kind = 'queue'", {})
    return None if row["shares"] is None else str(row["shares"])


def test_promised_and_delivered_shares_are_of_the_slots(app: Stepwell, clock: ManualClock) -> None:
    """Four runs of each class, those of gold three times as long; one slot in five is bronze's at least."""
    configured(app, 5)
    for name in PRIORITIES:
        app.main_processes.queue(name)
    Executors(app, clock, 1, 5, {"gold": 3.0, "silver": 1.0, "bronze": 1.0}).run(12)
    found = {share.task_class: share for share in app.main_processes.shares()}
    assert {name: share.runs for name, share in found.items()} == dict.fromkeys(PRIORITIES, 4)
    assert {name: share.promised for name, share in found.items()} == pytest.approx(PROMISED[5])
    assert found["gold"].delivered == pytest.approx(3 / 5, rel=0.25)


def test_by_date_created_the_oldest_tasks_run_first_whatever_their_priority(app: Stepwell) -> None:
    order: list[str] = []
    for name in PRIORITIES:
        app.job(name=name)(lambda name=name: order.append(name))
    task = {"timeout": 60, "cooldown": 5}
    processes = app.main_processes.configure(
        {
            "priority_strategy": "SortByDateCreated",
            "main_processes": {name: {"tasks": [{"class": name}]} for name in PRIORITIES},
            "tasks": {name: {"class": name, "priority": priority, **task} for name, priority in PRIORITIES.items()},
        }
    )
    for name in ("bronze", "gold", "silver"):
        processes.queue(name)
    row = WorkerRow(app.database, ["main-processes"], set(PRIORITIES), 1)
    claimer = Claimer(app.database, row, processes.strategy(), app.jobs.weights())
    claimed = [app.database.transact(lambda tx: claimer.claim(tx, 1))[0].step.action for _ in range(3)]
    assert claimed == ["bronze", "gold", "silver"]
