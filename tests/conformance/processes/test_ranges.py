"""Hash ranges over a real table: each entity is in exactly one part, for SQL and for Python alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from stepwell import Stepwell, current_step
from stepwell.share import HashRange, register_md5
from stepwell.share.ranges import Dialect
from tests.conformance.support.engine import plain_connection

ENTITIES = 10_000


@pytest.fixture
def customers(app: Stepwell) -> Iterator[tuple[Any, Dialect]]:
    """A table of customers with numbers, texts and UUIDs as their ids."""
    with plain_connection(app) as connection:
        dialect: Dialect = "sqlite" if app.database.dialect == "sqlite" else "postgres"
        mark = "?" if dialect == "sqlite" else "%s"
        if dialect == "sqlite":
            register_md5(connection)
        cursor = connection.cursor()
        cursor.execute("CREATE TEMPORARY TABLE customers (id integer PRIMARY KEY, name text, uid text)")
        rows = [(number, f"customer {number} é", str(UUID(int=number * 7_919))) for number in range(ENTITIES)]
        cursor.executemany(f"INSERT INTO customers VALUES ({mark}, {mark}, {mark})", rows)
        yield cursor, dialect
        cursor.execute("DROP TABLE customers")
        connection.commit()


@pytest.mark.slow
def test_each_of_ten_thousand_entities_is_in_exactly_one_part_of_1_to_16(customers: tuple[Any, Dialect]) -> None:
    for resources in range(1, 17):
        assert_each_is_in_one_part("id", resources, *customers)


@pytest.mark.parametrize("column", ["name", "uid"])
def test_entities_with_texts_and_uuids_as_their_ids_are_too(customers: tuple[Any, Dialect], column: str) -> None:
    assert_each_is_in_one_part(column, 7, *customers)


def assert_each_is_in_one_part(column: str, resources: int, cursor: Any, dialect: Dialect) -> None:
    cursor.execute(f"SELECT {column} FROM customers")
    entities = [row[0] for row in cursor.fetchall()]
    assert len(entities) == ENTITIES
    split = HashRange(resources)
    found: list[Any] = []
    for partition in split.partitions():
        condition = partition.condition_on_uid(f"customers.{column}", dialect)
        cursor.execute(f"SELECT {column} FROM customers WHERE {condition.sql}", condition.parameters)
        chosen = [row[0] for row in cursor.fetchall()]
        assert all(partition.contains(entity) for entity in chosen)
        found += chosen
    assert len(found) == ENTITIES
    assert set(found) == set(entities)


def test_the_tasks_of_a_split_class_visit_each_entity_of_a_real_table_once(
    app: Stepwell, customers: tuple[Any, Dialect]
) -> None:
    cursor, dialect = customers
    visited: list[int] = []

    @app.job()
    def sync() -> None:
        condition = current_step().partition.condition_on_uid("customers.id", dialect)
        cursor.execute(f"SELECT id FROM customers WHERE {condition.sql}", condition.parameters)
        visited.extend(row[0] for row in cursor.fetchall())

    app.main_processes.configure(
        {
            "main_processes": {"nightly": {"tasks": [{"class": "sync"}]}},
            "tasks": {"sync": {"class": "sync", "timeout": 60, "cooldown": 5, "range_strategy": "HashRange",
                               "resources": 5, "entity_uid": "customers.id"}},
        }
    ).queue("nightly")  # fmt: skip
    assert app.run_until_idle() == 5
    assert sorted(visited) == list(range(ENTITIES))
