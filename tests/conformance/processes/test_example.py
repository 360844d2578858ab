"""The example of the shop: its four main processes, run to their ends on both databases."""

from __future__ import annotations

from datetime import timedelta

import pytest

from examples.main_processes import shop
from stepwell import Stepwell
from stepwell.testing import ManualClock, bound


def beat_until(app: Stepwell, clock: ManualClock, expected: dict[str, list[str]]) -> None:
    """Queue, execute and reschedule, as the three heartbeats would, until the tasks are in these states."""
    queue, reschedule = app.main_processes.parts()
    assert (queue.name, reschedule.name) == ("queue", "reschedule")
    for _ in range(30):
        queue.round(())
        app.run_until_idle()
        if states(app) == expected:
            return
        app.main_processes.reschedule()
        clock.advance(2)
    raise AssertionError(states(app))


def states(app: Stepwell) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for task in app.main_processes.tasks():
        found.setdefault(task.task_class, []).append(task.state)
    return found


def test_the_four_main_processes_of_the_shop_come_to_their_ends(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(shop, "print_letter", lambda number: clock.advance(0.05))  # 100 take five seconds, of two
    with bound(shop.app, database_url, clock=clock) as app:
        queue, _ = app.main_processes.parts()
        queue.round(())
        assert {task.main_process for task in app.main_processes.tasks()} == {
            "customers", "prices", "letters", "billing",
        }  # fmt: skip
        app.run_until_idle()
        assert states(app)["send_letters"] == ["not_completed"]
        ends = {
            "sync_customers": ["completed"] * 4,
            "customer_report": ["completed"],
            "fetch_prices": ["completed"],
            "price_check": ["completed"],
            "send_letters": ["completed"],
            "tidy_up": ["completed"],
            "charge": ["error"],
            "archive": ["completed"],
        }
        beat_until(app, clock, ends)
        synced = [step.response for step in app.steps(action="sync_customers")]
        assert sum(synced[:4]) == len(shop.CUSTOMERS)
        assert len(app.steps(action="charge")) == 1
        assert app.history(app.steps(action="charge")[0])[-1].attempt == 3  # max_error_tries
        assert app.steps(action="send_letters")[0].response == "100 letters sent"
        assert len(app.history(app.steps(action="send_letters")[0])) > 8  # several runs of one step
        assert app.check_invariants() == []


def test_the_queuer_of_the_shop_queues_what_is_due_and_nothing_else(database_url: str) -> None:
    clock = ManualClock()
    with bound(shop.app, database_url, clock=clock) as app:
        queuer = shop.Queuer()
        assert [process.name for process in queuer.get_next_main_processes()] == list(shop.EVERY)
        app.main_processes.parts()[0].round(())
        assert list(queuer.get_next_main_processes()) == []
        clock.advance(timedelta(seconds=10))
        assert [process.key for process in queuer.get_next_main_processes()] == ["prices"]
