"""Graphs of every shape run in their order, with results as typed arguments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

from stepwell import Stepwell
from tests.conformance.support.engine import Engine


@dataclass
class Line:
    sku: str
    price: Decimal


@dataclass
class Order:
    id: int
    lines: list[Line]
    placed: datetime


class Receipt(msgspec.Struct):
    total: Decimal
    at: datetime


def pay(context: Order) -> Receipt:
    assert isinstance(context.lines[0].price, Decimal)
    return Receipt(sum((line.price for line in context.lines), Decimal()), context.placed)


def label(line: Line, pay: Receipt) -> str:
    assert isinstance(line, Line)
    assert isinstance(pay.at, datetime)
    return f"{line.sku} of {pay.total}"


def ship(label: list[str], pay: Receipt, id: int) -> str:
    return f"order {id}: {', '.join(label)} paid {pay.total}"


def test_results_arrive_as_the_types_that_are_annotated(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("typed", context=Order)
    paid = flow.step()(pay)
    flow.step(each={"line": "context.lines"})(label)
    shipped = flow.step()(ship)
    run = flow.start(Order(7, [Line("a", Decimal("1.50")), Line("b", Decimal("2"))], datetime(2026, 1, 1, tzinfo=UTC)))
    engine.settle()
    assert run.result(paid, timeout=0) == Receipt(Decimal("3.50"), datetime(2026, 1, 1, tzinfo=UTC))
    assert run.result(shipped, timeout=0) == "order 7: a of 3.50, b of 3.50 paid 3.50"


def node(**inputs: Any) -> list[str]:
    """Its own name and those of everything before it."""
    return sorted({name for each in inputs.values() for name in each} | inputs.keys())


def graph(app: Stepwell, edges: dict[str, list[str]]) -> dict[str, list[str]]:
    """Run a graph; returns what each step was reached by."""
    flow = app.workflows("shop").workflow("graph")
    job = app.job(name="node")(node)
    for name, upstream in edges.items():
        flow.step(name=name, inputs={other: other for other in upstream})(job)
    run = flow.start()
    app.run_until_idle()
    assert run.state == "complete"
    for name, upstream in edges.items():
        starts = run.step(name).started_at
        assert starts is not None
        assert all((run.step(other).completed_at or starts) <= starts for other in upstream)
    return {name: run.step(name).response for name in edges}


def test_a_linear_graph(engine: Engine) -> None:
    assert graph(engine.app, {"a": [], "b": ["a"], "c": ["b"]})["c"] == ["a", "b"]


def test_a_diamond(engine: Engine) -> None:
    assert graph(engine.app, {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})["d"] == ["a", "b", "c"]


def test_a_parallel_merge(engine: Engine) -> None:
    assert graph(engine.app, {"a": [], "b": [], "c": [], "d": ["a", "b", "c"]})["d"] == ["a", "b", "c"]


def test_a_tree(engine: Engine) -> None:
    found = graph(engine.app, {"a": [], "b": ["a"], "c": ["a"], "d": ["b"], "e": ["b"], "f": ["c"]})
    assert (found["d"], found["f"]) == (["a", "b"], ["a", "c"])


def test_a_mixed_graph(engine: Engine) -> None:
    found = graph(
        engine.app,
        {"a": [], "b": [], "c": ["a"], "d": ["a", "b"], "e": ["c", "d"], "f": ["b"], "g": ["e", "f", "a"]},
    )
    assert found["g"] == ["a", "b", "c", "d", "e", "f"]
