"""The jobs of the shop, its queuer, and the configuration of its main processes."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from stepwell import NOT_COMPLETED, Stepwell, current_step
from stepwell.processes.errors import TaskStateError
from stepwell.processes.main_process import MainProcess

LOGGER: Final = logging.getLogger("shop")
CUSTOMERS: Final = range(1_000)
LETTERS: Final = 100
EVERY: Final = {
    "Customers": timedelta(minutes=5),
    "Prices": timedelta(seconds=10),
    "Letters": timedelta(minutes=1),
    "Billing": timedelta(minutes=10),
}

app = Stepwell("sqlite:///main_processes.db")


@app.job()
def sync_customers() -> int:
    """One of four tasks: it has a quarter of the customers to itself."""
    part = current_step().partition
    return sum(part.contains(customer) for customer in CUSTOMERS)


@app.job()
def customer_report() -> str:
    """Runs again until one of its runs began after all four tasks had completed."""
    return f"{len(CUSTOMERS)} customers"


@app.job()
def fetch_prices() -> int:
    return 42


@app.job()
def price_check() -> str:
    return "all prices are plausible"


@app.job()
def send_letters() -> object:
    """A loop that leaves gracefully when its time is up; the next run continues with the checkpoint."""
    step = current_step()
    for letter in range(step.checkpointed or 0, LETTERS):
        if step.timeout_reached:
            step.checkpoint(letter)
            return NOT_COMPLETED
        print_letter(letter)
    return f"{LETTERS} letters sent"


def print_letter(number: int) -> None:
    """Takes its time."""
    time.sleep(0.05)


@app.job()
def tidy_up() -> None: ...


@app.job()
def charge() -> None:
    raise RuntimeError("the bank does not answer")


@app.job()
def archive() -> str:
    return "archived"


class Queuer:
    """Queues each main process when it is due. The times are in the database: a queuer may die at any moment."""

    def get_next_main_processes(self) -> Iterator[MainProcess]:
        processes, now = app.main_processes, app.database.now()
        for name, every in EVERY.items():
            key = processes.config.main_process(name).key
            queued_at = [task.queued_at for task in processes.tasks() if task.main_process == key]
            if not queued_at or now - max(queued_at) >= every:
                yield MainProcess.create(processes.config, processes.task_factory, name, data={"due": now})

    def queueing_start(self, main_process: MainProcess) -> bool:
        LOGGER.info("queueing %s, due at %s", main_process.name, main_process.data["due"])
        return True

    def queueing_stop(self, main_process: MainProcess) -> bool:
        LOGGER.info("%s is queued", main_process.name)
        return True

    def queueing_failed(self, main_process: MainProcess, error: Exception) -> None:
        if isinstance(error, TaskStateError):  # it is still at work: the next beat tries again
            LOGGER.info("%s waits for %s, which is %s", main_process.name, error.task_class, error.state)
            return
        LOGGER.error("%s cannot be queued: %s", main_process.name, error)


app.main_processes.configure(Path(__file__).with_name("processes.toml"), queuer=Queuer())


def heartbeat(kind: str, **worker: Any) -> None:
    """What cron calls instead of `stepwell heartbeat KIND`, if the shop has an entry point of its own."""
    app.main_processes.heartbeat(kind, **worker).heartbeat()
