"""A shop with history: every state, workflows, schedules, failures, and names that try to be code."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from stepwell import NewStep, Permanent, Reschedule, Retry, Skip, Stepwell, Stop, current_step
from stepwell.testing import ManualClock

HOSTILE = '<script>alert("x")</script>'
HOSTILE_TOO = '"><img src=x onerror=alert(1)>'


@dataclass(frozen=True, slots=True)
class Shop:
    """The app, and the ids of steps that tests look at."""

    app: Stepwell
    failed: int
    pending: int
    hostile: int
    cancelled: int
    workflow: str
    failed_workflow: str
    release: threading.Event  # lets the steps end that run while it is not set


def shop_app(url: str, clock: ManualClock | None = None) -> tuple[Stepwell, threading.Event]:
    """The app with its jobs, workflows and schedules."""
    app = Stepwell(url, name="shop", queues=["mail", "gpu"], clock=clock)
    release = threading.Event()
    _register(app, release)
    _declare_workflows(app)
    return app, release


def open_shop(url: str, hours: int = 2) -> Shop:
    """Some hours of history, then the app at the present time."""
    now = datetime.now(UTC)
    then, _ = shop_app(url, clock := ManualClock(now - timedelta(hours=hours)))
    _SLEEP[:] = [clock.sleep]
    with then:
        ids = _live(then, clock, now, hours)
    _SLEEP.clear()
    app, release = shop_app(url)
    return Shop(app=app.open(), release=release, **ids)


def _register(app: Stepwell, release: threading.Event) -> None:
    work = app.clock.sleep

    @app.job(max_retries=2)
    def fetch(source: str, rows: int = 100) -> dict[str, int]:
        step = current_step()
        step.log(f"fetching {rows} rows of {source}")
        work(0.3 + rows / 400)
        if source == "exchange" and step.attempts < 2:
            raise Retry("the exchange does not answer", in_=4)
        if source == "vat":
            raise TimeoutError(f"GET https://vat.example/rates: no answer within {rows} s")
        return {"rows": rows}

    @app.job(max_retries=2)
    def charge(order: int, card: str = "4242") -> str:
        work(1.2)
        if card.startswith("13"):
            raise Permanent(f"CardDeclined: card of order {order} was declined")
        return f"paid {order}"

    @app.job(queue="mail")
    def mail(to: str, subject: str = "your order") -> None:
        work(0.2)
        if to == "nobody@example":
            raise Skip("no address")

    @app.job()
    def report(day: str = "today") -> dict[str, str]:
        work(3.4)
        return {"day": day, "url": "https://reports.example/today"}

    @app.job()
    def sync_account(account: int) -> None:
        work(0.5)
        me = current_step()
        app.enqueue_many(
            [
                *(fetch.options(parent=me, index=1).draft(f"ledger {account}/{part}", 40) for part in range(3)),
                mail.options(parent=me, index=2).draft(f"account{account}@example"),
            ]
        )

    @app.job()
    def migrate(table: str) -> None:
        work(0.8)
        raise Stop(f"table {table} is locked by another migration")

    @app.job()
    def poll(feed: str) -> None:
        work(0.05)
        raise Reschedule("429 Too Many Requests", in_=86_400)

    @app.job()
    def hold(minutes: int = 1) -> None:
        """Runs until the test releases it."""
        current_step().log("holding")
        release.wait(30)

    @app.job()
    def odd(text: str) -> str:
        raise ValueError(f"cannot read {text}")


def _takes(seconds: float) -> None:
    """The steps of a workflow are functions of this module: they take the time of the clock that runs them."""
    for sleep in _SLEEP:
        sleep(seconds)


_SLEEP: list[Callable[[float], None]] = []


def collect(region: str) -> list[str]:
    _takes(2.4)
    return [f"{region}-{number}" for number in range(12)]


def price(item: str) -> float:
    _takes(0.4 + len(item) % 3)
    if item.endswith("-7"):
        raise Permanent(f"no price for {item}")
    return 9.5


def stock(collect: list[str]) -> int:
    _takes(3.1)
    return len(collect)


def publish(price: list[float], stock: int) -> str:
    return f"{stock} items"


def announce(publish: str) -> str:
    return publish


def _declare_workflows(app: Stepwell) -> None:
    for name, priced in (("catalogue", price), ("stocktake", stock)):
        flow = app.workflows("shop").workflow(name, version="3", context={"properties": {"region": {"default": "eu"}}})
        flow.step()(collect)
        if priced is price:
            flow.step(each={"item": "collect"})(price)
        flow.step()(stock)
        if priced is price:
            flow.step()(publish)
            flow.step()(announce)


def _live(app: Stepwell, clock: ManualClock, now: datetime, hours: int) -> dict[str, Any]:
    jobs = app.jobs
    app.schedules.create("nightly-report", "*/20 * * * *", "report", who="ann", why="finance asked", expect_within=90)
    app.schedules.create("price-feed", "*/5 * * * *", "fetch", {"source": "prices"}, who="ann", tz="Europe/Berlin")
    app.schedules.create("old-import", "0 4 * * *", "fetch", {"source": "old"}, who="bob")
    app.schedules.disable("old-import", who="bob", why="replaced by price-feed")
    for minute in range(0, hours * 60 - 5, 5):
        app.enqueue_many(
            jobs.draft("fetch", {"source": source, "rows": 40 + 7 * minute % 300}, {"relatable": ("feed", minute)})
            for source in ("orders", "customers", "exchange")
        )
        app.enqueue("charge", {"order": 4_000 + minute}, relatable=("order", 4_000 + minute))
        app.enqueue("mail", {"to": f"customer{minute}@example"})
        app.enqueue("sync_account", {"account": minute}, label=f"sync account {minute}")
        if minute % 20 == 0:
            app.enqueue("charge", {"order": minute, "card": "1300"}, relatable=("order", minute))
            app.enqueue("fetch", {"source": "vat", "rows": 30})
            app.enqueue("mail", {"to": "nobody@example"})
        app.schedules.run_once()
        _settle(app, clock)
        clock.move_to(max(clock.now(), now - timedelta(minutes=hours * 60 - minute)))
    app.enqueue("migrate", {"table": "orders"})
    app.enqueue("poll", {"feed": "news"})
    hostile = app.enqueue("odd", {"text": HOSTILE + HOSTILE_TOO},
                          label=HOSTILE, relatable=(HOSTILE_TOO, 1))  # fmt: skip
    done = app.workflows("shop").start("stocktake", initiator="ann")
    broken = app.workflows("shop").start("catalogue", {"region": HOSTILE}, initiator=HOSTILE)
    _settle(app, clock)
    clock.advance(5)
    parent = NewStep(action="report", label="month end")
    first = NewStep(action="charge", arguments={"order": 1, "card": "1399"}, parent=parent, index=1)
    behind = [NewStep(action="mail", arguments={"to": "a@example"}, parent=parent, index=2) for _ in range(4)]
    app.enqueue_many([parent, first, *behind])
    _settle(app, clock)
    unknown = [app.enqueue("embroider", {"text": "S"}, queue="gpu") for _ in range(3)]
    cancelled = app.enqueue("mail", {"to": "late@example"}, delay=86_400)
    app.cancel(cancelled, who="ann", why="the customer called")
    app.enqueue("mail", {"to": "tomorrow@example"}, delay=86_400)
    declined = app.steps(action="charge", state="Failed", limit=1)[0]
    app.retry(app.steps(action="fetch", state="Failed", limit=1)[0], who="bob", why="the service is back")
    _settle(app, clock)
    clock.move_to(max(clock.now(), now - timedelta(seconds=20)))
    return {
        "failed": declined.id,
        "pending": unknown[0].id,
        "hostile": hostile.id,
        "cancelled": cancelled.id,
        "workflow": done.id,
        "failed_workflow": broken.id,
    }


def _settle(app: Stepwell, clock: ManualClock) -> None:
    """Run everything, with the waits of retries."""
    for _ in range(4):
        app.run_until_idle(slots=4)
        clock.advance(5)
