"""The shop that stays open after the demo: work of every kind, so that each screen of the dashboard shows something.

A workflow with a map, retries, failures with several causes, a schedule, and a main process with two task classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import sleep
from typing import Any, Final

from stepwell import Permanent, Retry, Stepwell, current_step
from stepwell.processes.main_process import MainProcess

SCHEDULE: Final = "stock check"
_ITEMS: Final = ("tea", "cups", "pots", "spoons", "honey")
# One order in this many meets a problem.
_BANK_IS_SLOW, _CARD_IS_DECLINED, _MAIL_BOUNCES = 4, 7, 5
# Tasks of the main process at once: fewer than there are, so that their priorities decide.
_SYNC_SLOTS: Final = 1


@dataclass
class Order:
    number: int
    items: list[str]


def charge(number: int) -> str:
    sleep(0.3)
    if number % _BANK_IS_SLOW == 1 and current_step().attempts < 3:
        raise Retry("the bank does not answer", in_=2)
    if number % _CARD_IS_DECLINED == 3:
        raise Permanent(f"order {number}: the card was declined")
    return f"receipt {number}"


def pack(item: str, charge: str) -> str:
    sleep(0.6)
    return f"{item} ({charge})"


def ship(pack: list[str]) -> str:
    sleep(0.3)
    return f"one parcel with {', '.join(pack)}"


def confirm(order: int) -> None:
    sleep(0.1)
    if order % _MAIL_BOUNCES == 2:
        raise ValueError(f"no address for order {order}")


def check_stock() -> str:
    sleep(1.0)
    return "everything is in stock"


def sync_prices() -> None:
    sleep(0.5)


def sync_pictures() -> None:
    sleep(0.5)


class Shop:
    """The jobs, registered with an app, and the customers."""

    def __init__(self, app: Stepwell) -> None:
        self.app = app
        self.orders = 0
        self._order = app.workflows("shop").workflow("order", version="1", context=Order)
        self._order.step()(charge)
        self._order.step(each={"item": "context.items"}, limit=2)(pack)
        self._order.step()(ship)
        self._confirm = app.job(retries=1, priority="high")(confirm)
        app.cron("* * * * *", name=SCHEDULE)(check_stock)
        for job in (sync_prices, sync_pictures):
            app.job()(job)
        app.main_processes.configure(_SYNC, queuer=_Queuer(app))

    def open(self) -> None:
        self.app.schedules.reconcile()
        self.app.schedules.enable(SCHEDULE, who="demo", why="the shop opens")
        self.app.schedules.run_now(SCHEDULE, who="demo", why="the shop opens")

    def customer(self) -> None:
        """One more order."""
        self.orders += 1
        number = self.orders
        items = [_ITEMS[(number + place) % len(_ITEMS)] for place in range(1 + number % 4)]
        self._order.start(Order(number, items), initiator="a customer")
        self._confirm.options(label=f"confirm order {number}").enqueue(number)

    def close(self) -> None:
        """Without a scheduler, slots would be missed."""
        self.app.schedules.disable(SCHEDULE, who="demo", why="the shop is closed")


_SYNC: Final = {
    "max_execution_slots": _SYNC_SLOTS,
    "sleep_time_seconds": 3,
    "priority_strategy": "DivideTotalValueEqually",
    "main_processes": {"catalogue": {"tasks": [{"class": "sync_prices"}, {"class": "sync_pictures"}]}},
    "tasks": {
        "sync_prices": {"class": "sync_prices", "timeout": 30, "cooldown": 5, "priority": 20},
        "sync_pictures": {"class": "sync_pictures", "timeout": 30, "cooldown": 5, "priority": 10},
    },
}


class _Queuer:
    """Queues the catalogue again at each beat, if its tasks have ended."""

    def __init__(self, app: Stepwell) -> None:
        self._processes = app.main_processes

    def get_next_main_processes(self) -> list[MainProcess]:
        return [MainProcess.create(self._processes.config, self._processes.task_factory, "catalogue")]

    def queueing_start(self, main_process: MainProcess) -> bool:
        return True

    def queueing_stop(self, main_process: MainProcess) -> bool:
        return True

    def queueing_failed(self, main_process: MainProcess, error: Any) -> None: ...
