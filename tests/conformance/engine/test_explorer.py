"""Every small tree, and thousands of larger ones, end as predicted, on both databases and in any order of events.

The bounds of the exhaustive part (a *block* is the children of one step; a leaf ends in one of 6 ways: ok, fail, stop,
skip, cancelled while it runs, cancelled before it runs):

- a block of leaves: 1 or 2 default steps, of one index or of two, with all ends, and with no handler or with one that
  ends in each of the 6 ways: 441 blocks. Below a step that does not end ok nothing runs, so there all children
  are planned to end ok: 6 blocks.
- trees of depth 0 and 1: the root with each end and each such block, its children planted beforehand, and spawned.
- trees of depth 2 with one step at depth 1: likewise for that step, with and without a handler beside it.
- trees of depth 2 with two steps at depth 1: one of them with each block of leaves that has no handler or one that ends
  ok, the other a leaf with each end; side by side, one after the other, and the other way round; with and without
  a handler beside them. And 10 subtrees for both of them, one for each way in which a subtree can end.

`STEPWELL_EXPLORE=full` adds all 441 blocks and spawning to the third kind, and ten times as many random trees.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from stepwell import Stepwell
from stepwell.define.drafts import NewStep
from stepwell.model.states import CONCLUDED, State
from stepwell.testing import ManualClock, behave
from tests.conformance.support.explorer import (
    OUTCOMES,
    EngineRun,
    FinalState,
    ModelRun,
    Plan,
    Site,
    Tree,
    lay_out,
    predict,
    show,
)

FULL: Final = os.environ.get("STEPWELL_EXPLORE") == "full"
SEED: Final = int(os.environ.get("STEPWELL_EXPLORE_SEED", "20260101"))
# Depth 3 and retries of everything take at most 45 rounds when each round does all it can.
MAX_ROUNDS: Final = 100
SHARES: Final = 8  # the exhaustive trees are dealt out to so many tests, for the processes of a test run

LEAVES: Final = (*(Plan(outcome) for outcome in OUTCOMES), Plan(cancelled=True))


def blocks(handlers: tuple[Plan, ...]) -> Iterator[tuple[Plan, ...]]:
    """Every block of one or two leaves, without a handler and with each of these."""
    members: list[tuple[Plan, ...]] = [(leaf,) for leaf in LEAVES]
    members += itertools.combinations_with_replacement(LEAVES, 2)
    members += [(first, replace(second, index=2)) for first in LEAVES for second in LEAVES]
    for block in members:
        yield block
        for handler in handlers:
            yield (*block, replace(handler, handler=True))


ALL_BLOCKS: Final = tuple(blocks(LEAVES))
SOME_BLOCKS: Final = tuple(blocks((Plan(),)))
QUIET_BLOCKS: Final = tuple(
    block for block in SOME_BLOCKS if {(p.outcome, p.cancelled) for p in block} == {("ok", False)}
)


def over(choice: tuple[tuple[Plan, ...], ...]) -> Iterator[Plan]:
    """Every step that has one of these blocks below it; below one that does not end ok, only the shape counts."""
    yield from (Plan(children=block) for block in choice)
    for leaf in LEAVES[1:]:
        yield from (replace(leaf, children=block) for block in QUIET_BLOCKS)


SUBTREES: Final = (
    *(Plan(children=(leaf,)) for leaf in LEAVES[:4]),
    Plan(children=(Plan("fail"), Plan(index=2), Plan(handler=True))),
    *(replace(leaf, children=(Plan(), Plan(handler=True))) for leaf in LEAVES[1:]),
)


def every_tree() -> Iterator[Plan]:
    yield from LEAVES
    for root in over(ALL_BLOCKS):
        yield root
        yield spawning(root)
    for child in over(ALL_BLOCKS):
        for beside in ((), (Plan(handler=True),)):
            yield Plan(children=(child, *beside))
            yield spawning(Plan(children=(child, *beside)))
    for leaf in LEAVES[1:]:
        for child in over(QUIET_BLOCKS):
            yield replace(leaf, children=(child,))
    for one in over(ALL_BLOCKS if FULL else SOME_BLOCKS):
        for other in LEAVES:
            for tree in (*pairs(one, other), *pairs(other, one)):
                yield tree
                if FULL:
                    yield spawning(tree)
    for one, other in itertools.product(SUBTREES, repeat=2):
        yield from pairs(one, other)


def pairs(one: Plan, other: Plan) -> Iterator[Plan]:
    """One after the other, and side by side."""
    for beside in ((), (Plan(handler=True),)):
        yield Plan(children=(one, replace(other, index=2), *beside))
        if one.children:  # or it has been there the other way round
            yield Plan(children=(one, other, *beside))


def spawning(plan: Plan) -> Plan:
    return replace(plan, spawns=bool(plan.children), children=tuple(map(spawning, plan.children)))


def random_tree(rng: random.Random) -> Tree:
    """One to three roots, loose or in one block, with up to three levels below them, and DAG edges among all of it."""

    def grow(depth: int) -> Plan:
        size = rng.choice((0, 1, 2, 2, 3)) if depth else 0
        handler, cancelled = rng.random() < 0.2, rng.random() < 0.06
        return Plan(
            rng.choice(("ok",) * 8 + OUTCOMES),
            tuple(grow(depth - 1) for _ in range(size)),
            index=rng.choice((1, 1, 2, 3)),
            handler=handler,
            cancelled=cancelled,
            spawns=size > 0 and rng.random() < 0.4,
            again=rng.choice(("ok",) * 6 + OUTCOMES),
        )

    roots = [grow(3) for _ in range(rng.choice((1, 1, 2, 3)))]
    tree = lay_out(roots, one_block=len(roots) > 1 and rng.random() < 0.5)
    for _ in range(rng.randint(0, len(tree) // 2)):
        earlier, later = sorted(rng.choices(tree, k=2), key=lambda site: site.number)
        if may_follow(later, earlier) and earlier not in later.after:
            later.after.append(earlier)
            later.rule = rng.choice(("all_concluded", "all_concluded", "all_ended", "any_concluded"))
    return tree


def may_follow(later: Site, earlier: Site) -> bool:
    """Whether the result stays foretellable with this edge.

    What is above the later step, up to what both share, must be sure to open, or it depends on timing whether the step
    is doomed or fails with its parent; and nobody waits for something that may wake up from sleep.
    """
    if earlier in later.path_to_root() or later.plan.handler or later.creator() is not earlier.creator():
        return False
    shared = set(later.path_to_root()) & set(earlier.path_to_root())
    sure = all(
        site.plan.outcome == site.plan.again == "ok"
        and not (site.plan.cancelled or site.plan.handler or site.in_front or site.after)
        for site in later.path_to_root()[1:]
        if site not in shared
    )
    return sure and not any(site.plan.handler for site in earlier.path_to_root() if site not in shared)


def random_trees(count: int, part: str) -> list[Tree]:
    print(f"random trees of STEPWELL_EXPLORE_SEED={SEED}, part {part}")  # pytest shows it when the test fails
    rng = random.Random(f"{SEED}/{part}")
    return [random_tree(rng) for _ in range(count * (10 if FULL else 1))]


def assert_as_predicted(trees: list[Tree], predicted: list[dict[int, FinalState]], engine_run: EngineRun) -> None:
    results = engine_run.results()
    wrong = [n for n, (expected, seen) in enumerate(zip(predicted, results, strict=True)) if expected != seen]
    stories = [show(trees[n], predicted[n], results[n]) for n in wrong[:3]]
    assert not wrong, f"{len(wrong)} of {len(trees)} trees (predicted | seen):\n\n" + "\n\n".join(stories)
    engine_run.check()


def retry_some(trees: list[Tree], model_runs: list[ModelRun], engine_run: EngineRun, rng: random.Random) -> int:
    """An operator retries up to two bad ends of each tree; returns how many retries were accepted."""
    accepted = 0
    for tree, model_run, result in zip(trees, model_runs, engine_run.results(), strict=True):
        bad = [number for number, (state, _) in result.items() if state not in CONCLUDED]
        for number in rng.sample(bad, min(2, len(bad))):
            predicted, seen = model_run.retry(number), engine_run.retry(tree, number)
            assert predicted == seen, f"retry of #{number}: accepted? {predicted} | {seen}\n{show(tree, result)}"
            accepted += seen
    return accepted


def explore(app: Stepwell, trees: list[Tree], *, retries: int = 0, **how: Any) -> None:
    """Settle the trees and compare; then retry, settle and compare again."""
    engine_run = EngineRun(app, trees, **how)
    try:
        engine_run.settle(MAX_ROUNDS * (50 if how else 1))
        assert_as_predicted(trees, [predict(tree) for tree in trees], engine_run)
        model_runs = [ModelRun(tree) for tree in trees] if retries else []
        assert [model_run.settle() for model_run in model_runs] == engine_run.results()[: len(model_runs)]
        for number in range(retries):
            assert retry_some(trees, model_runs, engine_run, random.Random(f"{SEED}/{number}")) > 0
            engine_run.settle(MAX_ROUNDS * (50 if how else 1))
            assert_as_predicted(trees, [model_run.settle() for model_run in model_runs], engine_run)
    finally:
        engine_run.close()


@pytest.fixture
def memory_app() -> Iterator[Stepwell]:
    with Stepwell("sqlite://", clock=ManualClock()) as app:
        yield app


@pytest.fixture
def postgres_app(postgres_url: str) -> Iterator[Stepwell]:
    with Stepwell(postgres_url, clock=ManualClock()) as app:
        yield app


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_every_small_tree_ends_as_predicted(memory_app: Stepwell, share: int) -> None:
    explore(memory_app, [lay_out([plan]) for plan in itertools.islice(every_tree(), share, None, SHARES)])


@pytest.mark.slow
@pytest.mark.parametrize("part", ["a", "b", "c"])
def test_random_trees_with_edges_and_retries_end_as_predicted(memory_app: Stepwell, part: str) -> None:
    explore(memory_app, random_trees(700, part), retries=2)


@pytest.mark.slow
@pytest.mark.parametrize("slots", [1, 64])
def test_the_order_of_groups_and_workers_decides_nothing(memory_app: Stepwell, slots: int) -> None:
    few = 120 if slots == 1 else 12
    trees = [lay_out([plan]) for plan in itertools.islice(every_tree(), slots % 7, None, few)]
    trees += random_trees(40 if slots == 1 else 300, f"order {slots}")
    explore(memory_app, trees, retries=2, slots=slots, rng=random.Random(f"{SEED}/{slots}"))


@pytest.mark.slow
@pytest.mark.parametrize("part", ["a", "b"])
def test_postgres_ends_them_the_same_way(postgres_app: Stepwell, part: str) -> None:
    trees = [lay_out([plan]) for plan in itertools.islice(every_tree(), ord(part) % 2, None, 11)]
    explore(postgres_app, [*trees, *random_trees(200, f"postgres {part}")], retries=1)


def test_a_retry_also_raises_the_failed_parents_of_what_stood_behind_it(app: Stepwell) -> None:
    """Found by the explorer: the dependent came back below a parent that had ended, and waited there for ever."""
    behave(app)
    culprit = NewStep(action="behave", arguments={"outcome": ["fail", "ok"]})
    parent = NewStep(action="behave")
    behind = NewStep(action="behave", parent=parent, depends_on=[culprit])
    culprit_ref, parent_ref, behind_ref = app.enqueue_many([culprit, parent, behind])
    app.run_until_idle()
    assert [app.step(ref).state for ref in (culprit_ref, parent_ref, behind_ref)] == [
        State.FAILED,
        State.FAILED,
        State.NOT_RUNNABLE,
    ]
    assert app.retry(culprit_ref, who="test").revived == sorted(ref.id for ref in (culprit_ref, parent_ref, behind_ref))
    assert app.step(parent_ref).state is State.RUNNING


def test_a_retry_leaves_alone_what_stands_below_a_parent_that_was_completed_by_hand(app: Stepwell) -> None:
    behave(app)
    culprit = NewStep(action="behave", arguments={"outcome": "fail"})
    parent = NewStep(action="behave")
    behind = NewStep(action="behave", parent=parent, depends_on=[culprit])
    culprit_ref, parent_ref, behind_ref = app.enqueue_many([culprit, parent, behind])
    app.run_until_idle()
    app.complete(parent_ref, who="test")
    assert app.retry(culprit_ref, who="test").revived == [culprit_ref.id]
    assert app.step(behind_ref).state is State.NOT_RUNNABLE
