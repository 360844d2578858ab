"""Shares that hold over many claims, however small each of them is."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.share.over_time import SharesOverTime
from stepwell.share.strategies import DivideTotalValueEqually

WEIGHTS = {"mail": 3, "report": 2, "sync": 1}
PLENTY = dict.fromkeys(WEIGHTS, 1_000)

actions = st.sampled_from("abcdef")
counts = st.dictionaries(actions, st.integers(0, 9), max_size=6)
priorities = st.dictionaries(actions, st.one_of(st.integers(1, 50), st.fractions(min_value="1/9", max_value=9)))


def chosen(turns: SharesOverTime, waiting: Mapping[str, int], held: Mapping[str, int] | None = None) -> str:
    (action,) = (action for action, count in turns.grants(1, waiting, WEIGHTS, held or {}).items() if count)
    return action


@pytest.mark.parametrize("size", [1, 2])
def test_many_small_claims_make_exact_shares(size: int) -> None:
    turns = SharesOverTime(slots=size)
    ran: Counter[str] = Counter()
    for _ in range(600 // size):
        ran.update(turns.grants(size, PLENTY, WEIGHTS))
    assert ran == {"mail": 300, "report": 200, "sync": 100}


def test_no_action_waits_longer_than_its_share_allows() -> None:
    turns = SharesOverTime(slots=1)
    order = [chosen(turns, PLENTY) for _ in range(600)]
    places = {action: [place for place, who in enumerate(order) if who == action] for action in WEIGHTS}
    gaps = {action: max(after - before for before, after in pairwise(places[action])) for action in WEIGHTS}
    assert gaps == {"mail": 3, "report": 3, "sync": 6}


@pytest.mark.parametrize(("window", "ends"), [(4, 1), (5, 3), (20, 7)])
def test_claims_ahead_of_the_slots_make_exact_shares_too(window: int, ends: int) -> None:
    turns, line, ran = SharesOverTime(slots=1), deque[str](), Counter[str]()
    while ran.total() < 600:
        for action, count in turns.grants(window - len(line), PLENTY, WEIGHTS, Counter(line)).items():
            line.extend([action] * count)
        ran.update(line.popleft() for _ in range(ends))
    assert all(abs(ran[action] - 100 * weight) <= window for action, weight in WEIGHTS.items())


@pytest.mark.parametrize("workers", [1, 4])
def test_workers_that_share_slots_make_exact_shares_although_none_is_a_whole_number(workers: int) -> None:
    """Twelve slots, and shares of 7.06, 3.53 and 1.41; every run takes three rounds of its worker."""
    weights, slots, chance = {"mail": 20, "report": 10, "sync": 4}, 12, random.Random(1)
    turns = [SharesOverTime(slots) for _ in range(workers)]
    runs: list[deque[list[str]]] = [deque([[], [], []]) for _ in range(workers)]
    ran: Counter[str] = Counter()
    while ran.total() < 2_000:
        which = chance.randrange(workers)
        runs[which].popleft()
        held = Counter(action for each in runs for together in each for action in together)
        free = min(slots - held.total(), 5 if workers > 1 else slots)
        waiting = dict.fromkeys(weights, free)  # a claim looks no further than it can take
        granted = Counter(turns[which].grants(free, waiting, weights, held))
        runs[which].append(list(granted.elements()))
        ran += granted
    for action, weight in weights.items():
        assert ran[action] / ran.total() == pytest.approx(weight / 34, rel=0.05)


def test_an_action_with_nothing_waiting_saves_up_no_share() -> None:
    turns = SharesOverTime(slots=1)
    for _ in range(100):
        chosen(turns, {"mail": 5, "report": 5})
    first = [chosen(turns, PLENTY) for _ in range(6)]
    assert Counter(first) == {"mail": 3, "report": 2, "sync": 1}


def test_a_long_run_in_one_of_two_slots_leaves_the_other_to_the_rest_in_turn() -> None:
    turns = SharesOverTime(slots=2)
    assert Counter(chosen(turns, PLENTY, {"mail": 1}) for _ in range(90))["sync"] >= 10


@given(st.lists(st.tuples(st.integers(0, 9), counts, counts), max_size=12), st.integers(1, 9), priorities)
def test_every_claim_by_itself_is_sound(claims, slots, weights) -> None:
    turns = SharesOverTime(slots)
    for size, waiting, held in claims:
        granted = turns.grants(size, waiting, weights, held)
        assert sum(granted.values()) == min(size, sum(waiting.values()))
        assert all(0 <= count <= waiting[action] for action, count in granted.items())
        with_work = [action for action, count in waiting.items() if count]
        if size >= len(with_work) and slots >= len(with_work):
            assert all(granted[action] or held.get(action) for action in with_work)


@given(st.integers(6, 20), counts, priorities)
def test_the_first_claim_is_divided_as_if_there_were_no_memory(size, waiting, weights) -> None:
    granted = SharesOverTime(slots=9).grants(size, waiting, weights)
    assert granted == DivideTotalValueEqually().grants(size, waiting, weights)


class OneMemory:
    """Workers that divide the slots of a limit under constant load, with one memory, on a clock of their own."""

    def __init__(
        self, slots: int, weights: Mapping[str, int], seconds: Mapping[str, float], varies: float = 0.2
    ) -> None:
        self.varies = varies
        self.slots, self.weights, self.seconds = slots, weights, seconds
        self.workers = [SharesOverTime(slots) for _ in range(3)]
        self.chance = random.Random(5)
        self.memory: str | None = None
        self.now = 1_700_000_000.0
        self.running: list[tuple[float, str]] = []  # when each run ends, and its action
        self.order: list[str] = []
        self.held: Counter[str] = Counter()  # slots, in seconds

    def run(self, runs: int) -> None:
        while len(self.order) < runs:
            self.claim()
            self.running.sort()
            end = self.running[0][0]
            for _, action in self.running:
                self.held[action] += end - self.now  # type: ignore[assignment]
            self.now = end
            self.running = [(over, action) for over, action in self.running if over > end]

    def claim(self) -> None:
        worker, free = self.chance.choice(self.workers), self.slots - len(self.running)
        worker.recall(self.memory, self.now)
        held = Counter(action for _, action in self.running)
        granted = worker.grants(free, dict.fromkeys(self.weights, free), self.weights, held)
        self.memory = worker.remember()
        for action in Counter(granted).elements():
            self.order.append(action)
            self.running.append(
                (self.now + self.seconds[action] * self.chance.uniform(1 - self.varies, 1 + self.varies), action)
            )

    def shares(self) -> dict[str, float]:
        return {action: self.held[action] / self.held.total() for action in self.weights}


@pytest.mark.parametrize("slots", [1, 2, 11])
def test_workers_with_one_memory_divide_the_time_of_the_slots_however_long_the_runs_of_each_action_take(
    slots: int,
) -> None:
    weights = {"mail": 20, "report": 10, "sync": 4}
    load = OneMemory(slots, weights, {"mail": 1.0, "report": 4.0, "sync": 0.5})
    load.run(2_000)
    assert load.shares() == pytest.approx({action: weight / 34 for action, weight in weights.items()}, rel=0.1)


def test_workers_with_one_memory_take_turns_as_one_worker_does() -> None:
    load = OneMemory(1, WEIGHTS, dict.fromkeys(WEIGHTS, 1.0), varies=0.0)
    load.run(6)
    one = SharesOverTime(slots=1)
    assert load.order == [chosen(one, PLENTY) for _ in range(6)]


def test_a_night_without_work_distorts_the_shares_of_a_few_runs_only() -> None:
    load = OneMemory(3, WEIGHTS, dict.fromkeys(WEIGHTS, 1.0))
    load.run(300)
    load.now += 8 * 3_600
    load.running, load.held, load.order = [], Counter(), []
    load.run(300)
    assert load.shares() == pytest.approx({"mail": 4 / 9, "report": 2 / 9 + 1 / 9, "sync": 1 / 3}, rel=0.3)


def test_a_clock_that_is_set_back_stops_no_action() -> None:
    load = OneMemory(1, WEIGHTS, dict.fromkeys(WEIGHTS, 1.0))
    load.run(60)
    load.now -= 3_600
    load.running, load.order = [], []
    load.run(60)
    assert Counter(load.order) == {action: pytest.approx(10 * weight, abs=3) for action, weight in WEIGHTS.items()}
