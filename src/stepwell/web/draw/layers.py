"""The layout of a graph: nodes in layers, each edge from a layer to a later one, few crossings.

The layout depends on the nodes and edges alone, never on states: a node does not move while its workflow runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Generic, TypeVar

N = TypeVar("N", bound=Hashable)

# Passes of the barycentre method; more changed nothing on graphs of 200 nodes.
_PASSES: Final = 8


@dataclass(frozen=True, slots=True)
class Placed(Generic[N]):
    """Layers from the left to the right, each from the top to the bottom; None is where a long edge passes."""

    layers: tuple[tuple[N | None, ...], ...]
    places: Mapping[N, tuple[int, float]]  # layer, and the position in it
    routes: Mapping[tuple[N, N], tuple[tuple[int, float], ...]]  # where an edge passes, with both ends

    @property
    def height(self) -> float:
        return max((position for _, position in self.places.values()), default=0) + 1


def place(nodes: Sequence[N], edges: Sequence[tuple[N, N]]) -> Placed[N]:
    """Place every node; an edge of a cycle is ignored for the layers and drawn backwards.

    >>> placed = place("abcd", [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])
    >>> [[node for node in layer] for layer in placed.layers]
    [['a'], ['b', 'c'], ['d']]
    """
    known = dict.fromkeys(nodes)
    edges = [edge for edge in dict.fromkeys(edges) if edge[0] in known and edge[1] in known and edge[0] != edge[1]]
    layer_of = _layers(list(known), edges)
    chains = {edge: _chain(edge, layer_of) for edge in edges}
    rows: list[list[object]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for node in known:
        rows[layer_of[node]].append(node)
    links: dict[object, set[object]] = {}
    for chain in chains.values():
        for point in chain[1:-1]:
            assert isinstance(point, _Bend)
            rows[point.layer].append(point)
        for one, other in pairwise(chain):
            links.setdefault(one, set()).add(other)
            links.setdefault(other, set()).add(one)
    rows = _order(rows, links)
    positions = _positions(rows, links)
    return Placed(
        tuple(tuple(None if isinstance(each, _Bend) else each for each in row) for row in rows),  # type: ignore[misc]
        {node: (layer_of[node], positions[node]) for node in known},
        {
            edge: tuple(
                (point.layer if isinstance(point, _Bend) else layer_of[point], positions[point])  # type: ignore[index]
                for point in chain
            )
            for edge, chain in chains.items()
        },
    )


@dataclass(frozen=True, slots=True)
class _Bend:
    """Where an edge that is longer than one layer passes a layer."""

    edge: tuple[object, object]
    layer: int


def _layers(nodes: list[N], edges: list[tuple[N, N]]) -> dict[N, int]:
    """The longest path from a node without predecessors."""
    before: dict[N, int] = dict.fromkeys(nodes, 0)
    after: dict[N, list[N]] = {node: [] for node in nodes}
    for one, other in edges:
        before[other] += 1
        after[one].append(other)
    layer_of = dict.fromkeys(nodes, 0)
    ready = [node for node in nodes if not before[node]]
    left = dict.fromkeys(nodes)
    while left:
        if not ready:  # a cycle: go on with the node that was named first
            ready = [next(iter(left))]
        node = ready.pop(0)
        if node not in left:
            continue
        del left[node]
        for other in after[node]:
            if other in left:
                layer_of[other] = max(layer_of[other], layer_of[node] + 1)
                before[other] -= 1
                if not before[other]:
                    ready.append(other)
    return layer_of


def _chain(edge: tuple[N, N], layer_of: dict[N, int]) -> list[object]:
    first, last = layer_of[edge[0]], layer_of[edge[1]]
    between = range(first + 1, last) if first < last else range(first - 1, last, -1)
    return [edge[0], *(_Bend(edge, layer) for layer in between), edge[1]]


def _order(rows: list[list[object]], links: dict[object, set[object]]) -> list[list[object]]:
    """Sort each layer by the mean position of the neighbours, forwards and backwards; keep the best."""
    best, fewest = [list(row) for row in rows], _crossings(rows, links)
    for turn in range(_PASSES):
        if not fewest:
            break
        forwards = turn % 2 == 0
        indices = range(1, len(rows)) if forwards else range(len(rows) - 2, -1, -1)
        for index in indices:
            beside = {node: place for place, node in enumerate(rows[index - 1 if forwards else index + 1])}
            means = {}
            for place, node in enumerate(rows[index]):
                found = [beside[other] for other in links.get(node, ()) if other in beside]
                means[node] = sum(found) / len(found) if found else float(place)
            rows[index] = sorted(rows[index], key=lambda node, means=means: means[node])  # type: ignore[misc]
        crossings = _crossings(rows, links)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def crossings(placed: Placed[N]) -> int:
    """How many pairs of edges cross."""
    pieces: dict[int, list[tuple[float, float]]] = {}
    for route in placed.routes.values():
        for (layer, start), (_, end) in pairwise(route):
            pieces.setdefault(layer, []).append((start, end))
    return sum(
        (a - c) * (b - d) < 0
        for found in pieces.values()
        for place, (a, b) in enumerate(found)
        for c, d in found[place + 1 :]
    )


def _crossings(rows: list[list[object]], links: dict[object, set[object]]) -> int:
    total = 0
    for row, following in pairwise(rows):
        at = {node: place for place, node in enumerate(following)}
        ends = [at[other] for node in row for other in sorted(links.get(node, ()), key=lambda o: at.get(o, -1))
                if other in at]  # fmt: skip
        total += _inversions(ends)
    return total


def _inversions(values: list[int]) -> int:
    """How many pairs are in the wrong order, by merging."""
    if len(values) < 2:
        return 0
    half = len(values) // 2
    left, right = values[:half], values[half:]
    found = _inversions(left) + _inversions(right)
    left.sort()
    right.sort()
    place = 0
    for value in left:
        while place < len(right) and right[place] < value:
            place += 1
        found += place
    return found


def _positions(rows: list[list[object]], links: dict[object, set[object]]) -> dict[object, float]:
    """Keep the order of each layer; move towards the neighbours, at least one apart."""
    at: dict[object, float] = {node: float(place) for row in rows for place, node in enumerate(row)}
    for turn in range(_PASSES):
        for row in rows if turn % 2 == 0 else reversed(rows):
            wanted = []
            for node in row:
                near = [at[other] for other in links.get(node, ())]
                wanted.append(sum(near) / len(near) if near else at[node])
            for node, position in zip(row, _apart(wanted), strict=True):
                at[node] = position
    least = min(at.values(), default=0)
    return {node: position - least for node, position in at.items()}


def _apart(wanted: list[float]) -> list[float]:
    """The nearest positions in this order that are at least one apart: groups that touch move as one."""
    groups: list[tuple[float, int]] = []  # the mean of (wanted - place), and how many
    for place, value in enumerate(wanted):
        mean, count = value - place, 1
        while groups and groups[-1][0] > mean:
            other, size = groups.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        groups.append((mean, count))
    spread = [mean for mean, count in groups for _ in range(count)]
    return [mean + place for place, mean in enumerate(spread)]
