"""Item 3: a scheduler that sleeps until a slot far away sees an added or edited schedule at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import closing

import pytest

from stepwell import Stepwell
from stepwell.schedule.scheduler_part import SchedulerPart
from stepwell.service.background import Background
from stepwell.service.crew import Crew
from stepwell.store import Wake
from tests.conformance.schedule.support import create, plain_sql
from tests.unit.cli.support import plain_sql as another_client

INSERT = "INSERT INTO cron_jobs (name, cron_expression, handler_name) VALUES ('s', '0 0 1 1 *', 'report')"
WAIT_SECONDS = 30.0  # half of the poll interval


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the scheduler has slept on"
        time.sleep(0.01)


def test_plain_sql_of_another_client_is_noticed_while_the_scheduler_sleeps(shared_database_url: str) -> None:
    with Stepwell(shared_database_url) as app:

        @app.job()
        def report() -> None: ...

        slept: list[float] = []
        part = app.parts.scheduler()
        whole = part.round

        def counting(wakes: Collection[Wake]) -> float:
            slept.append(whole(wakes))
            return slept[-1]

        part.round = counting  # type: ignore[method-assign]
        with Background(Crew([part])):
            _until(lambda: slept)
            another_client(shared_database_url, INSERT)
            _until(lambda: app.schedules.list() and app.schedules.get("s").revision == 1)
            another_client(shared_database_url, "UPDATE cron_jobs SET max_retry = 8 WHERE name = 's'")
            _until(lambda: app.schedules.get("s").revision == 2)


@pytest.mark.postgres
def test_every_way_to_change_a_schedule_sends_a_wake_up(postgres_url: str) -> None:
    with Stepwell(postgres_url) as app, closing(app.database.listen()) as listener:

        @app.job()
        def report() -> None: ...

        def woken() -> bool:
            return Wake.SCHEDULES in listener.wait([], 1.0)  # also ends for a ping of the listener to itself

        changes: list[Callable[[], object]] = [
            lambda: create(app),
            lambda: app.schedules.edit("s", max_retry=1, who="bob"),
            lambda: app.schedules.disable("s", who="bob"),
            lambda: plain_sql(app, INSERT.replace("'s'", "'t'")),
            lambda: plain_sql(app, "UPDATE cron_jobs SET is_enabled = 1 WHERE name = 's'"),
        ]
        for change in changes:
            change()
            _until(woken)
            while listener.poll_wakes():
                pass
        app.schedules.run_once()


def test_a_scheduler_sleeps_until_the_next_slot_and_never_longer_than_the_poll_interval(app: Stepwell) -> None:
    @app.job()
    def report() -> None: ...

    scheduler = app.schedules.scheduler()
    assert scheduler.round().pause == 60.0
    create(app)
    assert scheduler.round().pause == 60.0
    create(app, "* * * * *", name="t")
    assert scheduler.round().pause == 30.0  # the clock of these tests begins half a minute before a slot
    assert isinstance(app.parts.scheduler(), SchedulerPart)
