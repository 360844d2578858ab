"""From a step to the steps behind it, and so on, down to what waits for nothing: the root causes."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime

from stepwell.look.explain.facts import Facts
from stepwell.look.explain.found import Before, Found, Node, Source, cause
from stepwell.look.explain.text import state_text


class Chain:
    """Everything behind one step, or behind several: the nearest first, without recursion, each step once."""

    def __init__(self, facts: Facts, starts: Sequence[int], sources: Sequence[Source]) -> None:
        self.facts = facts
        self.starts = starts
        self._sources = sources
        self.obstacles: dict[int, list[Found]] = {}
        self.unexamined: set[int] = set()
        self._links: dict[Node, list[Node]] = {}
        self._follow()
        self._order, self._cycles = self._walk()

    def _follow(self) -> None:
        waiting: deque[Node] = deque(self.starts)
        self._links |= {start: [] for start in self.starts}
        while waiting:
            node = waiting.popleft()
            if isinstance(node, Before):
                behind = self._next_lower_index(node)
            else:
                step = self.facts.steps[node]
                found = [each for source in self._sources for each in source(self.facts, step)]
                self.obstacles[node] = found
                behind = list(dict.fromkeys(other for each in found for other in each.behind))
            steps = self.facts.steps
            self.unexamined.update(other for other in behind if isinstance(other, int) and other not in steps)
            self._links[node] = [other for other in behind if isinstance(other, Before) or other in steps]
            for other in self._links[node]:
                if other not in self._links:
                    self._links[other] = []
                    waiting.append(other)

    def _next_lower_index(self, node: Before) -> list[Node]:
        members = self.facts.blocks[node.block, node.type]
        end = bisect_left(members, node.index, key=lambda member: member.index)
        if end == 0:
            return []
        index = members[end - 1].index
        start = bisect_left(members, index, key=lambda member: member.index)
        level: list[Node] = [
            member.step_id for member in members[start:end] if not self.facts.has_concluded(member.step_id)
        ]
        return level if start == 0 else [*level, Before(node.block, node.type, index)]

    def root_causes(self, besides: int | None = None) -> Iterator[tuple[int, Found]]:
        """What waits for nothing, with the step that waits for it, and cycles. A step is no cause of itself."""
        for step_id, found in self.obstacles.items():
            if not found and step_id != besides:
                step = self.facts.steps[step_id]
                yield step_id, cause(step.state.lower(), state_text(step))
            for each in found:
                if not each.behind:
                    yield step_id, each
        for cycle in self._cycles:
            text = self.facts.listed(cycle)
            yield (
                cycle[0],
                cause("cycle", f"these wait for each other: {text}", advice=[f"stepwell cancel {cycle[0]}"]),
            )

    def expected_at(self, step_id: int) -> datetime | None:
        """The earliest moment at which a step can continue, as far as it is known."""
        moments: dict[Node, datetime | None] = {}
        for node in self._order:
            if isinstance(node, Before):
                moments[node] = _latest(moments.get(other) for other in self._links[node])
            else:
                moments[node] = _latest(_moment(each, moments) for each in self.obstacles[node])
        moment = moments[step_id]
        return moment if moment is not None and moment > self.facts.now else None

    def _walk(self) -> tuple[list[Node], list[list[int]]]:
        """The nodes, each after those behind it; and the cycles."""
        done: list[Node] = []
        cycles: list[list[int]] = []
        path: dict[Node, Iterator[Node]] = {}
        seen: set[Node] = set()
        unseen = iter(self.starts)
        while path or (start := next((each for each in unseen if each not in seen), None)) is not None:
            if not path:
                assert start is not None
                seen.add(start)
                path[start] = iter(self._links[start])
            node = next(reversed(path))
            other = next(path[node], None)
            if other is None:
                done.append(node)
                del path[node]
            elif other in path:
                nodes = list(path)
                cycles.append([each for each in nodes[nodes.index(other) :] if not isinstance(each, Before)])
            elif other not in seen:
                seen.add(other)
                path[other] = iter(self._links[other])
        return done, cycles


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
