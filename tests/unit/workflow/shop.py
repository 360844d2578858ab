"""A small shop: models and code that the tests declare workflows with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from stepwell import Outcome, Stepwell, Workflow, WorkflowDefinitionError


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    id: int
    lines: list[Line] = field(default_factory=list)
    gift: bool = False


class Receipt(msgspec.Struct):
    amount: float


class Wrap(msgspec.Struct):
    paper: str


class Label(msgspec.Struct):
    number: int


class Approval(msgspec.Struct):
    granted: bool


class Parcel(msgspec.Struct):
    labels: list[Label]


def payment(context: Order) -> Receipt:
    return Receipt(float(context.id))


def wrapping(payment: Receipt) -> Wrap:
    return Wrap("red")


def label(line: Line, payment: Receipt) -> Label:
    return Label(line.count)


def parcel(label: list[Label], wrapping: Wrap | None, approval: Approval) -> Parcel:
    return Parcel(label)


def report(payment: Outcome[Receipt], parcel: Outcome[Parcel]) -> None: ...


def declare_fulfil(app: Stepwell, version: str = "2") -> Workflow[Order]:
    """The example of the documentation."""
    fulfil = app.workflows("shop").workflow("fulfil", version=version, context=Order)
    fulfil.step(retry_limit=5, timeout=30)(payment)
    fulfil.step(when={"context.gift": True}, skippable=True)(wrapping)
    fulfil.step(each={"line": "context.lines"}, limit=8)(label)
    fulfil.gate("approval", after=["label"], result=Approval, expires="14d")
    fulfil.step()(parcel)
    fulfil.step(trigger="all_ended")(report)
    return fulfil


def problems_of(workflow: Any) -> list[str]:
    """What is wrong with it, without the name of the workflow in front."""
    try:
        workflow.check()
    except WorkflowDefinitionError as error:
        return [problem.removeprefix(f"{workflow}: ") for problem in error.problems]
    return []
