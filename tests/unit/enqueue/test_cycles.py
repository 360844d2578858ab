"""A set of steps is refused exactly when running it would never end: compared with a small simulation."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stepwell import InvalidStep
from stepwell.enqueue.cycles import _WaitGraph


@dataclass
class Spot:
    """A step by its number: under a parent (or at the top), at an index, behind others."""

    parent: int | None = None
    index: int = 1
    after: list[int] = field(default_factory=list)
    kind: str = "default"


def refused(spots: list[Spot]) -> bool:
    graph = _WaitGraph()
    for number, spot in enumerate(spots):
        block = "top" if spot.parent is None else f"children of {spot.parent}"
        graph.add(
            number, f"step{number}", parent=spot.parent, dependencies=spot.after, level=(block, spot.kind, spot.index)
        )
    try:
        graph.refuse_cycles()
    except InvalidStep:
        return True
    return False


def gets_stuck(spots: list[Spot]) -> bool:
    """Run them by the rules of readiness, every step succeeding at once; true if some never end."""
    started: set[int] = set()
    ended: set[int] = set()
    while True:
        before = len(started) + len(ended)
        for number, spot in enumerate(spots):
            lower = [
                other
                for other, place in enumerate(spots)
                if (place.parent, place.kind) == (spot.parent, spot.kind) and place.index < spot.index
            ]
            if (spot.parent is None or spot.parent in started) and ended.issuperset([*lower, *spot.after]):
                started.add(number)
            children = {other for other, place in enumerate(spots) if place.parent == number}
            if number in started and children <= ended:
                ended.add(number)
        if len(started) + len(ended) == before:
            return len(ended) < len(spots)


@st.composite
def forests(draw: st.DrawFn) -> list[Spot]:
    count = draw(st.integers(1, 7))
    spots = []
    for number in range(count):
        parent = draw(st.none() | st.integers(0, number - 1)) if number else None
        others = [other for other in range(count) if other != number]
        after = draw(st.lists(st.sampled_from(others), max_size=2, unique=True)) if others else []
        kind = draw(st.sampled_from(["default", "default", "resolve-exception"]))
        spots.append(Spot(parent, draw(st.integers(1, 3)), after, kind))
    return spots


@given(forests())
@example([Spot(after=[1]), Spot(after=[0])])
@example([Spot(index=1, after=[1]), Spot(index=2)])
@example([Spot(), Spot(parent=0, after=[0])])
@example([Spot(), Spot(parent=0), Spot(after=[1], index=2)])
def test_steps_are_refused_exactly_when_they_would_wait_for_ever(spots: list[Spot]) -> None:
    assert refused(spots) == gets_stuck(spots)


def test_the_refusal_names_the_steps_of_the_circle_and_no_others() -> None:
    graph = _WaitGraph()
    graph.add("a", "fetch", parent=None, dependencies=["b"], level=("x", "default", 1))
    graph.add("b", "store", parent=None, dependencies=["a"], level=("y", "default", 1))
    graph.add("c", "bystander", parent=None, dependencies=["a"], level=("z", "default", 1))
    with pytest.raises(InvalidStep) as refusal:
        graph.refuse_cycles()
    assert "fetch" in str(refusal.value)
    assert "store" in str(refusal.value)
    assert "bystander" not in str(refusal.value)


def test_a_deep_chain_is_accepted() -> None:
    graph = _WaitGraph()
    for number in range(20_000):
        graph.add(
            number,
            f"step{number}",
            parent=None,
            dependencies=[number - 1] if number else [],
            level=(f"block {number}", "default", 1),
        )
    graph.refuse_cycles()
