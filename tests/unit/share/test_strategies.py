"""Strategies: how the free slots are divided among the actions."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.share.strategies import DivideTotalValueEqually, InvalidWeight, SortByDateCreated, Strategy, safe_grants

divide = DivideTotalValueEqually().grants

actions = st.text("abcdef", min_size=1, max_size=2)
waiting_counts = st.dictionaries(actions, st.integers(0, 60), max_size=8)
some_slots = st.integers(0, 120)
a_weight = st.one_of(
    st.integers(1, 3_000),
    st.decimals("0.01", "3000", places=2),
    st.fractions(Fraction(1, 100), 3_000, max_denominator=100),
    st.floats(1e-6, 1e6),
)
some_weights = st.dictionaries(actions, a_weight, max_size=8)


def with_work(waiting: Mapping[str, int]) -> list[str]:
    return [action for action, count in waiting.items() if count]


@given(some_slots, waiting_counts, some_weights)
def test_as_many_are_granted_as_there_are_slots_and_steps(slots, waiting, weights) -> None:
    assert sum(divide(slots, waiting, weights).values()) == min(slots, sum(waiting.values()))


@given(some_slots, waiting_counts, some_weights)
def test_no_action_gets_more_than_it_has_waiting(slots, waiting, weights) -> None:
    assert all(0 <= count <= waiting[action] for action, count in divide(slots, waiting, weights).items())


@given(some_slots, waiting_counts, some_weights)
def test_no_action_with_work_goes_without_while_another_gets_two(slots, waiting, weights) -> None:
    granted = divide(slots, waiting, weights)
    assert set(granted) == set(with_work(waiting))
    if slots >= len(granted):
        assert all(granted.values())
    else:
        assert set(granted.values()) <= {0, 1}


@given(some_slots, waiting_counts, some_weights)
def test_a_larger_weight_never_gets_less_unless_it_has_no_more(slots, waiting, weights) -> None:
    granted = divide(slots, waiting, weights)
    for one in granted:
        for other in granted:
            if Fraction(weights.get(one, 1)) >= Fraction(weights.get(other, 1)) and granted[one] < waiting[one]:
                assert granted[one] >= granted[other] - (weights.get(one, 1) == weights.get(other, 1))


@given(st.integers(1, 120), st.dictionaries(actions, a_weight, min_size=1, max_size=6))
def test_shares_are_within_one_of_the_exact_proportion_when_nothing_stands_in_the_way(slots, weights) -> None:
    exact = {action: slots * Fraction(p) / sum(map(Fraction, weights.values())) for action, p in weights.items()}
    granted = divide(slots, dict.fromkeys(weights, slots), weights)
    if all(share >= 1 for share in exact.values()):
        assert all(abs(granted[action] - share) < 1 for action, share in exact.items())
        assert all(granted[action] == share for action, share in exact.items() if share == round(share))


@given(some_slots, waiting_counts, some_weights, actions)
def test_what_an_action_cannot_use_is_divided_as_if_that_action_were_not_there(slots, waiting, weights, name) -> None:
    # An action with nothing but its one step takes that one, whatever its weight; the others share the rest.
    others = {action: count for action, count in waiting.items() if action != name}
    if slots <= len(with_work(others)):
        return
    granted = divide(slots, others | {name: 1}, weights)
    assert granted.pop(name) == 1
    assert granted == divide(slots - 1, others, weights)


@given(some_slots, waiting_counts, some_weights, st.randoms(use_true_random=False))
def test_the_order_in_which_actions_are_named_changes_nothing(slots, waiting, weights, random) -> None:
    shuffled = list(waiting.items())
    random.shuffle(shuffled)
    assert divide(slots, dict(shuffled), weights) == divide(slots, waiting, weights)


@given(some_slots, waiting_counts, some_weights, st.integers(1, 10**12))
def test_only_the_proportion_of_weights_counts(slots, waiting, weights, factor) -> None:
    scaled = {action: Fraction(weights.get(action, 1)) / factor for action in waiting}
    assert divide(slots, waiting, scaled) == divide(slots, waiting, weights)


@given(some_slots, waiting_counts, some_weights, waiting_counts)
def test_what_is_held_already_counts_towards_the_shares(slots, waiting, weights, running) -> None:
    granted = divide(slots, waiting, weights, running)
    assert sum(granted.values()) == min(slots, sum(waiting.values()))
    assert all(0 <= count <= waiting[action] for action, count in granted.items())
    without = [action for action in granted if not running.get(action)]
    assert sum(granted[action] > 0 for action in without) >= min(slots, len(without))
    for one in granted:
        for other in granted:
            # Who was given something is not ahead of one with a larger weight that could have used more.
            if (
                Fraction(weights.get(one, 1)) > Fraction(weights.get(other, 1))
                and granted[one] < waiting[one]
                and granted[other]
            ):
                assert running.get(one, 0) + granted[one] >= running.get(other, 0) + granted[other]


def test_one_free_slot_after_the_other_ends_in_the_same_shares_as_all_at_once() -> None:
    waiting, weights = {"mail": 100, "report": 100, "sync": 100}, {"mail": 20, "report": 10, "sync": 2}
    running = dict.fromkeys(waiting, 0)
    for _ in range(32):
        for action, count in divide(1, waiting, weights, running).items():
            running[action] += count
    assert running == {"mail": 20, "report": 10, "sync": 2} == divide(32, waiting, weights)


def test_constant_traffic_of_a_high_weight_does_not_starve_the_rest() -> None:
    # One slot in all: whoever is told what was served lately lets everybody have a turn.
    served = {"high": 0, "low": 0}
    for _ in range(1_010):
        for action, count in divide(1, {"high": 1_000, "low": 1_000}, {"high": 100}, served).items():
            served[action] += count
    assert served == {"high": 1_000, "low": 10}


def test_equal_shares_go_by_name() -> None:
    assert divide(5, {"b": 9, "c": 9, "a": 9}) == {"a": 2, "b": 2, "c": 1}
    assert divide(1, {"b": 9, "a": 9}) == {"a": 1, "b": 0}


def test_a_weight_that_no_float_can_hold_still_counts() -> None:
    nearly = Fraction(10**30 + 1, 10**30)
    assert divide(3, {"a": 9, "b": 9}, {"b": nearly}) == {"b": 2, "a": 1}


@pytest.mark.parametrize(
    "weight", [0, -1, float("nan"), float("inf"), Decimal("NaN"), Decimal("-Infinity"), None, "3", [3]], ids=repr
)
def test_a_weight_that_is_no_positive_number_is_refused_with_its_action(weight: Any) -> None:
    with pytest.raises(InvalidWeight, match=r"the weight of 'mail' is .* above 0"):
        divide(3, {"mail": 1}, {"mail": weight})


def test_oldest_first_divides_nothing() -> None:
    assert safe_grants(SortByDateCreated(), 3, {"mail": 9}) is None


class Odd(Strategy):
    """A strategy that does what it is told."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def grants(self, slots: int, waiting: object, weights: object, running: object) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (RuntimeError("out of ideas"), "strategy Odd raised; claiming the oldest steps instead"),
        ({"mail": 4}, "granted 4 to 'mail', which has 3 waiting"),
        ({"post": 1}, "granted 1 to 'post', which has 0 waiting"),
        ({"mail": -1}, "granted -1 to 'mail', which is not a number of steps"),
        ({"mail": 1.5}, "granted 1.5 to 'mail', which is not a number of steps"),
        ({"mail": 3, "report": 3}, "granted 6 of 5 free slots"),
        (["mail"], "strategy Odd raised"),
    ],
    ids=str,
)
def test_a_strategy_that_raises_or_grants_what_is_not_there_is_logged_and_the_oldest_go_first(
    answer: Any, said: str, caplog
) -> None:
    with caplog.at_level(logging.ERROR, "stepwell.share"):
        assert safe_grants(Odd(answer), 5, {"mail": 3, "report": 3}) is None
    (record,) = caplog.records
    assert said in record.getMessage()
    assert bool(record.exc_info) == (not isinstance(answer, dict))


def test_what_a_sound_strategy_grants_is_passed_on() -> None:
    assert safe_grants(Odd({"mail": 2}), 5, {"mail": 3}) == {"mail": 2}
