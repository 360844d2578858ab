"""From a step to the steps behind it, and so on, down to what waits for nothing: the root causes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from stepwell.look.explain.facts import Facts
from stepwell.look.explain.found import Before, Found, Goal, Need, Node, Source, cause, later
from stepwell.look.explain.outlook import outlook
from stepwell.look.explain.result import Obstacle
from stepwell.look.explain.text import state_text
from stepwell.look.explain.walk import reachable, walk
from stepwell.model.reasons import DORMANT
from stepwell.model.states import State

# A step that is in order, which the engine runs without further help.
_IN_ORDER: Final = ("pending", "dispatched")
# What is removed for all steps at once.
_SHARED: Final = ("dispatch_after", "workflow", "workers", "breaker", "limit", "room", "slots")
# What is removed by an action on steps that have ended.
_BY_ACTION: Final = ("ended", "dormant", "not_runnable")


class Chain:
    """Everything behind one step, or behind several: the nearest first, without recursion, each step once.

    What a step waits for later is left out, unless it leads to a root cause that would not be named otherwise.
    """

    def __init__(self, facts: Facts, starts: Sequence[int], sources: Sequence[Source]) -> None:
        self.facts = facts
        self._starts: list[Node] = [Need(each, _asked(facts, each)) for each in starts]
        self._sources = sources
        self._found: dict[Node, list[Found]] = {}
        self._levels: dict[Before, list[Node]] = {}
        self.unexamined: set[int] = set()
        everything = reachable(self._starts, self._examine)
        self._order = self._in_order_of_removal(everything)
        self._now = reachable(self._starts, lambda node: self._links(node, with_later=False))
        self._nodes = self._without_repetitions(everything)
        self.obstacles = self._by_step()

    def _examine(self, node: Node) -> list[Node]:
        if isinstance(node, Before):
            self._levels[node] = self._next_lower_index(node)
        else:
            self._found[node] = list(outlook(self.facts, self._sources, self.facts.steps[node.step_id], node.goal))
        behind = self._links(node)
        self.unexamined.update(
            each.step_id
            for found in self._found.get(node, ())
            for each in found.behind
            if isinstance(each, Need) and each.step_id not in self.facts.steps
        )
        return behind

    def _links(self, node: Node, *, with_later: bool = True) -> list[Node]:
        if isinstance(node, Before):
            return [each for each in self._levels[node] if isinstance(each, Before) or each.step_id in self.facts.steps]
        return [
            other
            for found in self._found[node]
            if with_later or not found.is_later
            for other in found.behind
            if isinstance(other, Before) or other.step_id in self.facts.steps
        ]

    def _next_lower_index(self, node: Before) -> list[Node]:
        members = self.facts.blocks[node.block, node.type]
        end = bisect_left(members, node.index, key=lambda member: member.index)
        if end == 0:
            return []
        index = members[end - 1].index
        start = bisect_left(members, index, key=lambda member: member.index)
        ids = [member.step_id for member in members[start:end] if not self.facts.has_concluded(member.step_id)]
        self.unexamined.update(each for each in ids if each not in self.facts.steps)
        level: list[Node] = [Need(each) for each in ids if not self._is_dormant(each)]
        return level if start == 0 else [*level, Before(node.block, node.type, index)]

    def _is_dormant(self, step_id: int) -> bool:
        """A dormant handler never concludes by itself: the step that waits for it says so."""
        step = self.facts.steps.get(step_id)
        return step is not None and step.state is State.NOT_RUNNABLE and step.reason == DORMANT

    # What is new, and what only repeats -----------------------------------------------------------------

    def _without_repetitions(self, everything: Iterable[Node]) -> dict[Node, None]:
        """Leave out what comes later and leads to no root cause that is not named already; returns what remains."""
        named = {_identity(node, each) for node in self._now for each in self._causes(node) if not each.is_later}
        ahead = [node for node in everything if node not in self._now]
        leading_to: dict[Node, list[Node]] = {}
        for node in ahead:
            for other in self._links(node):
                leading_to.setdefault(other, []).append(node)
        new = [node for node in ahead if any(_is_news(node, each, named) for each in self._causes(node))]
        kept = {*self._now, *reachable(new, lambda node: leading_to.get(node, ()))}
        for node, found in self._found.items():
            self._found[node] = [
                each
                for each in found
                if not each.is_later
                or (any(other not in self._now and other in kept for other in each.behind) if each.behind
                    else _is_news(node, each, named))
            ]  # fmt: skip
        return reachable(self._starts, lambda node: [other for other in self._links(node) if other in kept])

    def _causes(self, node: Node) -> Iterator[Found]:
        """What waits for nothing: obstacles with nothing behind them, or the state of a step without an obstacle."""
        if isinstance(node, Before):
            return
        found = self._found[node]
        if all(each.is_later for each in found):
            step = self.facts.steps[node.step_id]
            yield cause(step.state.lower(), state_text(step))
        yield from (each for each in found if not each.behind)

    def _by_step(self) -> dict[int, list[Found]]:
        """What each step waits for, now before later."""
        by_step: dict[int, dict[Obstacle, Found]] = {}
        for node in self._nodes:
            if isinstance(node, Need):
                obstacles = by_step.setdefault(node.step_id, {})
                for each in sorted(self._found[node], key=lambda found: found.is_later):
                    obstacles.setdefault(each.obstacle, each)
        return {step_id: list(obstacles.values()) for step_id, obstacles in by_step.items()}

    # The answers ------------------------------------------------------------------------------------------

    def root_causes(self, besides: int | None = None) -> Iterator[tuple[int, Found]]:
        """What waits for nothing, with the step that waits for it, in an order in which it can be removed; and cycles.

        A step is no cause of itself.
        """
        found = [
            (node.step_id, each if node in self._now else later(each))
            for node in self._order
            if node in self._nodes and isinstance(node, Need) and (node.step_id != besides or self._found[node])
            for each in self._causes(node)
        ]
        yield from sorted(found, key=lambda each: _turn(each[1]))
        for cycle in self._cycles():
            text = self.facts.listed(cycle)
            yield (
                cycle[0],
                cause("cycle", f"these wait for each other: {text}", advice=[f"stepwell cancel {cycle[0]}"]),
            )

    def _in_order_of_removal(self, everything: Iterable[Node]) -> list[Node]:
        """A retry revives nothing below a step that has ended.

        So parents come before what is below them, and what waits comes before what it waits for: also where only what
        is left out as a repetition says so.
        """
        nodes = list(everything)
        first: dict[Node, list[Node]] = {node: [] for node in nodes}
        for node in reversed(nodes):
            for other in self._links(node):
                if isinstance(other, Need) and other.goal is Goal.OWN_CODE_DONE:
                    first[other].append(node)
                else:
                    first[node].append(other)
        return walk(reversed(nodes), first)[0][::-1]

    def _cycles(self) -> list[list[int]]:
        """Steps that wait for each other now."""
        links = {node: self._links(node, with_later=False) for node in self._now}
        return [
            list(dict.fromkeys(node.step_id for node in cycle if isinstance(node, Need)))
            for cycle in walk(self._starts, links)[1]
        ]

    def _kept_links(self, node: Node) -> list[Node]:
        return [other for other in self._links(node) if other in self._nodes]

    def expected_at(self, step_id: int) -> datetime | None:
        """The earliest moment at which a step can continue, as far as it is known."""
        moments: dict[Node, datetime | None] = {}
        links = {node: self._kept_links(node) for node in self._nodes}
        for node in walk(self._starts, links)[0]:
            if isinstance(node, Before):
                moments[node] = _latest(moments.get(other) for other in links[node])
            else:
                moments[node] = _latest(_moment(each, moments) for each in self._found[node])
        moment = moments[Need(step_id, _asked(self.facts, step_id))]
        return moment if moment is not None and moment > self.facts.now else None


def _asked(facts: Facts, step_id: int) -> Goal:
    """What it means that a step gets on: its own code runs, or its children conclude."""
    return Goal.CONCLUDED if facts.steps[step_id].waits_for_children else Goal.OWN_CODE_DONE


def _turn(found: Found) -> int:
    """A lease that is held refuses a retry; what is only in the way afterwards comes last."""
    if found.obstacle.condition in _BY_ACTION:
        return 1
    return 2 if found.is_later and found.obstacle.condition != "lease" else 0


def _identity(node: Node, found: Found) -> tuple[int, Obstacle]:
    """What makes a root cause another one: some are removed for all steps at once."""
    if isinstance(node, Before) or found.obstacle.condition in _SHARED:
        return 0, found.obstacle
    return node.step_id, found.obstacle


def _is_news(node: Node, found: Found, named: set[tuple[int, Obstacle]]) -> bool:
    return found.obstacle.condition not in _IN_ORDER and _identity(node, found) not in named


def _moment(found: Found, moments: dict[Node, datetime | None]) -> datetime | None:
    if not found.behind:
        return found.obstacle.changes_at if found.is_removed_then else None
    behind = [moments.get(node) for node in found.behind]
    if found.any_of:
        known = [moment for moment in behind if moment is not None]
        return min(known) if len(known) == len(behind) else None
    return _latest(behind)


def _latest(moments: Iterator[datetime | None] | Sequence[datetime | None]) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)
