"""Reads with a time limit (`Database.bounded`): those of people who look."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from stepwell import Stepwell
from stepwell.model.errors import ReadTookTooLong
from stepwell.store import Transaction
from stepwell.store.engine import reading

pytestmark = pytest.mark.sqlite_file

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n WHERE i < 0"


def look_for_ever(tx: Transaction) -> None:
    tx.fetch(ENDLESS, {})


def test_a_read_that_takes_too_long_is_given_up_and_the_next_one_works(app: Stepwell) -> None:
    with app.database.bounded(0.1):
        for _ in range(3):
            with pytest.raises(ReadTookTooLong, match="nothing was written"):
                app.database.read(look_for_ever)
            assert app.database.read(reading.newest_change) == 0
    app.enqueue("work")
    assert app.database.read(reading.newest_change) == 1


def count_to_a_million(tx: Transaction) -> None:
    tx.fetch(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) SELECT max(i) FROM n", {}
    )


def test_the_limit_is_that_of_one_database_and_ends_with_its_block(app: Stepwell) -> None:
    with Stepwell("sqlite://") as other, app.database.bounded(0.001):
        other.database.read(count_to_a_million)
        with pytest.raises(ReadTookTooLong):
            app.database.read(count_to_a_million)
    app.database.read(count_to_a_million)


def test_the_limit_is_that_of_the_thread_that_reads(app: Stepwell) -> None:
    with app.database.bounded(0.001), ThreadPoolExecutor(1) as another:
        another.submit(app.database.read, count_to_a_million).result()


@pytest.fixture
def shared(shared_database_url: str) -> Iterator[Stepwell]:
    with Stepwell(shared_database_url) as app:
        yield app


def test_a_read_with_a_limit_cannot_write(shared: Stepwell) -> None:
    with shared.database.bounded(5.0), pytest.raises(Exception, match=r"read-?only|readonly"):
        shared.database.read(lambda tx: tx.execute("DELETE FROM steps", {}))


def test_a_long_look_does_not_hold_up_the_reads_of_the_engine(shared: Stepwell) -> None:
    looks, done = threading.Event(), threading.Event()

    def look(tx: Transaction) -> None:
        tx.fetch("SELECT 1", {})
        looks.set()
        assert done.wait(30)

    def from_outside() -> None:
        with shared.database.bounded(30.0):
            shared.database.read(look)

    thread = threading.Thread(target=from_outside)
    thread.start()
    assert looks.wait(30)
    shared.enqueue("work")
    assert shared.database.read(reading.newest_change) == 1
    done.set()
    thread.join()
