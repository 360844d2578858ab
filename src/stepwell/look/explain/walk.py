"""Depth-first, without recursion: ten thousand steps may wait for each other in a row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def walk(starts: Iterable[N], links: Mapping[N, Sequence[N]]) -> tuple[list[N], list[list[N]]]:
    """All nodes, each after those that it leads to; and the cycles."""
    done: list[N] = []
    cycles: list[list[N]] = []
    path: dict[N, Iterator[N]] = {}
    seen: set[N] = set()
    unseen = iter(starts)
    while path or (start := next((each for each in unseen if each not in seen), None)) is not None:
        if not path:
            assert start is not None
            seen.add(start)
            path[start] = iter(links.get(start, ()))
        node = next(reversed(path))
        other = next(path[node], None)
        if other is None:
            done.append(node)
            del path[node]
        elif other in path:
            nodes = list(path)
            cycles.append(nodes[nodes.index(other) :])
        elif other not in seen:
            seen.add(other)
            path[other] = iter(links.get(other, ()))
    return done, cycles


def reachable(starts: Iterable[N], links: Callable[[N], Iterable[N]]) -> dict[N, None]:
    """All nodes, the nearest first."""
    found = dict.fromkeys(starts)
    waiting = list(found)
    for node in waiting:  # it grows
        for other in links(node):
            if other not in found:
                found[other] = None
                waiting.append(other)
    return found
