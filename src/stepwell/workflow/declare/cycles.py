"""Cycles in a graph of steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter


def cycles(upstream: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Cycles, each as a path from a step to itself, in the order of the work; after each, one of its edges is removed.

    >>> list(cycles({"a": {"c"}, "b": {"a"}, "c": {"b"}, "d": {"a"}}))
    [['a', 'b', 'c', 'a']]
    """
    left = {name: set(before) for name, before in upstream.items()}
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            *path, _ = error.args[1]
            first = path.index(min(path))
            path = [*path[first:], *path[:first]]
            left[path[0]].discard(path[-1])
            yield [*path, path[0]]
        else:
            return
