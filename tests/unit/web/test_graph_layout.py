"""The layout of graphs: layers, few crossings, nothing on top of each other, and states never move a node."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from stepwell.look import palette
from stepwell.web.draw import graph
from stepwell.web.draw.layers import crossings, place


def random_graph(seed: int) -> tuple[list[str], list[tuple[str, str]]]:
    random = Random(seed)
    nodes = [f"n{number}" for number in range(random.randint(2, 40))]
    edges = [
        (nodes[start], nodes[end])
        for start in range(len(nodes))
        for end in range(start + 1, len(nodes))
        if random.random() < 0.1
    ]
    return nodes, edges


@pytest.mark.parametrize("seed", range(20))
def test_every_edge_leads_to_a_later_layer_and_no_two_nodes_overlap(seed: int) -> None:
    nodes, edges = random_graph(seed)
    placed = place(nodes, edges)
    assert set(placed.places) == set(nodes)
    assert all(placed.places[one][0] < placed.places[other][0] for one, other in edges)
    by_layer: dict[int, list[float]] = {}
    for layer, position in placed.places.values():
        by_layer.setdefault(layer, []).append(position)
    for positions in by_layer.values():
        positions.sort()
        assert all(later - earlier > 0.999 for earlier, later in pairwise(positions))


def test_a_graph_that_can_be_drawn_without_crossings_is() -> None:
    edges = [("a", "x"), ("b", "y"), ("c", "z"), ("x", "end"), ("y", "end"), ("z", "end"), ("start", "c")]
    placed = place(["c", "b", "a", "z", "x", "y", "start", "end"], edges)
    assert crossings(placed) == 0


def test_a_cycle_is_drawn_and_does_not_hang() -> None:
    placed = place("abc", [("a", "b"), ("b", "c"), ("c", "a")])
    assert len(placed.places) == 3


def test_a_thousand_nodes_are_placed() -> None:
    nodes = [str(number) for number in range(1_000)]
    edges = [(nodes[number // 3], nodes[number]) for number in range(1, 1_000)]
    assert len(place(nodes, edges).places) == 1_000


def test_a_changed_state_changes_a_class_and_no_position() -> None:
    edges = [("1", "2")]
    placed = graph.layout(["1", "2"], edges)

    def drawn(look: palette.Look) -> str:
        boxes = [graph.Box("1", "fetch", palette.COMPLETED), graph.Box("2", "mail", look, note="same")]
        return str(graph.draw(boxes, edges, placed, label="steps"))

    running, failed = drawn(palette.RUNNING), drawn(palette.FAILED)
    assert running != failed
    for word in ("s-running", "▶", "Running"):
        running = running.replace(word, "")
    for word in ("s-failed", "✗", "Failed"):
        failed = failed.replace(word, "")
    assert running == failed


def test_names_in_a_drawing_are_escaped() -> None:
    placed = graph.layout(["1"], [])
    box = graph.Box("1", '<script>"', palette.FAILED, href='/x"><img>', note="<b>")
    drawn = str(graph.draw([box], [], placed, label="<svg>"))
    assert "<script>" not in drawn
    assert "<img>" not in drawn
    assert "<b>" not in drawn
