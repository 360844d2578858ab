"""An order: charge it, label each line side by side, wait for an approval, send the parcel, and report in any case.

stepwell workflows start fulfil --app examples.orders:app --context '{"id": 7, "lines": [{"sku": "tea"}]}'
stepwell up --app examples.orders:app
stepwell workflows answer WORKFLOW approval '{"by": "ann"}' --db sqlite:///orders.db
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from stepwell import Outcome, Permanent, Stepwell

app = Stepwell("sqlite:///orders.db")


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    id: int
    lines: list[Line] = field(default_factory=list)
    gift: bool = False


@dataclass
class Receipt:
    amount: int


@dataclass
class Approval:
    by: str


fulfil = app.workflows().workflow("fulfil", version="1", context=Order)


@fulfil.step(retry_limit=5, timeout=30)
def payment(context: Order) -> Receipt:
    if not context.lines:
        raise Permanent("an order needs a line")
    return Receipt(sum(line.count for line in context.lines) * 10)


@fulfil.step(when={"context.gift": True}, skippable=True)
def wrapping(payment: Receipt) -> str:
    return "red paper"


@fulfil.step(each={"line": "context.lines"}, limit=8)
def label(line: Line, payment: Receipt) -> str:
    return f"{line.count} x {line.sku}"


approval = fulfil.gate("approval", after=[label], result=Approval, expires=timedelta(days=14))


@fulfil.step
def parcel(label: list[str], wrapping: str | None, approval: Approval) -> str:
    return f"{', '.join(label)} in {wrapping or 'a plain box'}, approved by {approval.by}"


@fulfil.step(trigger="all_ended")
def report(payment: Outcome[Receipt], parcel: Outcome[str]) -> str:
    return parcel.result or f"nothing was sent: {parcel.error or payment.error}"
