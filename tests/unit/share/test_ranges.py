"""How a step's work is split."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwell.share import Condition, HashRange, Partition, UniqueId, hash_of, register_md5
from stepwell.share.ranges import HEX, Dialect, InvalidRange
from tests.conftest import POSTGRES, SQLITE_MEMORY

resources = pytest.mark.parametrize("resources", range(1, 17))
# Any text that both databases can keep: no NUL and no lone surrogate.
uids = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])) | st.integers() | st.uuids()


@resources
def test_the_parts_are_disjoint_and_cover_all_sixteen_characters(resources: int) -> None:
    partitions = HashRange(resources).partitions()
    assert "".join(partition.characters for partition in partitions) == HEX
    assert [partition.number for partition in partitions] == list(range(1, resources + 1))


@resources
def test_the_sizes_are_within_one_of_each_other_and_larger_parts_come_first(resources: int) -> None:
    sizes = [len(partition.characters) for partition in HashRange(resources).partitions()]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 16), uids)
def test_every_entity_belongs_to_exactly_one_part(resources: int, uid: Any) -> None:
    range_ = HashRange(resources)
    assert [partition for partition in range_.partitions() if partition.contains(uid)] == [range_.partition_of(uid)]


def test_entities_spread_evenly() -> None:
    counts = [0] * 4
    for number in range(4_000):
        counts[HashRange(4).partition_of(number).number - 1] += 1
    assert all(900 < count < 1_100 for count in counts)


@given(uids)
def test_a_unique_id_is_one_part_with_everything(uid: Any) -> None:
    (partition,) = UniqueId().partitions()
    assert partition == UniqueId().partition_of(uid)
    assert partition.contains(uid)


@pytest.mark.parametrize("resources", [0, 17, -1, 2.5, "4", True, None], ids=repr)
def test_resources_outside_of_1_to_16_are_refused(resources: Any) -> None:
    with pytest.raises(InvalidRange, match="16 hex characters of a hash, so pass a whole number from 1 to 16"):
        HashRange(resources)


@pytest.mark.parametrize("column", ["", "a b", "a;--", "a.b.c.d", 'a"', "1a", "a.", "é", "a\n", "md5(a)"], ids=repr)
def test_what_is_no_plain_name_of_a_column_never_reaches_sql(column: str) -> None:
    for condition in (Partition(1, "0").condition, Partition(1, "0").condition_on_uid, Partition(1, HEX).condition):
        with pytest.raises(InvalidRange, match="is not a plain column name"):
            condition(column, "sqlite")


@pytest.mark.parametrize("uid", [1.5, True, None, b"a"], ids=repr)
def test_an_id_that_databases_write_in_different_ways_is_refused(uid: Any) -> None:
    with pytest.raises(InvalidRange, match="pass a string, an integer or a UUID"):
        hash_of(uid)


class Entities:
    """A table of entities: their ids as text, a hash of each in capitals, and which of them a condition chooses."""

    def __init__(self, dialect: Dialect, execute: Callable[..., Any]) -> None:
        self.dialect = dialect
        self._execute = execute
        self._mark = "?" if dialect == "sqlite" else "%s"
        execute("CREATE TEMPORARY TABLE entities (place integer, uid text, hash text)")

    def replace(self, uids: list[Any]) -> None:
        self._execute("DELETE FROM entities")
        for place, uid in enumerate(uids):
            stored = None if uid is None else str(uid)
            hashed = None if uid is None else hash_of(uid).upper()
            self._execute(f"INSERT INTO entities VALUES ({', '.join([self._mark] * 3)})", (place, stored, hashed))

    def chosen_by(self, condition: Condition) -> list[int]:
        query = f"SELECT place FROM entities WHERE {condition.sql} ORDER BY place"
        return [place for (place,) in self._execute(query, condition.parameters)]


@pytest.fixture(params=[SQLITE_MEMORY, POSTGRES])
def entities(request: pytest.FixtureRequest) -> Iterator[Entities]:
    """The same table in both databases."""
    if request.param == "postgres":
        from tests.postgres_server import server_url

        request.getfixturevalue("postgres_server")
        with psycopg.connect(server_url()) as postgres:
            yield Entities("postgres", postgres.execute)
    else:
        with closing(sqlite3.connect(":memory:")) as sqlite:
            register_md5(sqlite)
            yield Entities("sqlite", sqlite.execute)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 16), st.lists(uids, max_size=20))
def test_sql_and_python_agree_on_which_entity_belongs_to_which_part(
    entities: Entities, resources: int, uids: list[Any]
) -> None:
    entities.replace(uids)
    for partition in HashRange(resources).partitions():
        expected = [place for place, uid in enumerate(uids) if partition.contains(uid)]
        assert entities.chosen_by(partition.condition("entities.hash", entities.dialect)) == expected
        assert entities.chosen_by(partition.condition_on_uid("uid", entities.dialect)) == expected


def test_rows_without_an_id_belong_to_the_only_part_and_to_no_one_of_several(entities: Entities) -> None:
    entities.replace([None, 7, UUID(int=7)])
    for partitions, expected in ((UniqueId().partitions(), [0, 1, 2]), (HashRange(5).partitions(), [1, 2])):
        for condition in (Partition.condition, Partition.condition_on_uid):
            column = "hash" if condition is Partition.condition else "uid"
            chosen = [entities.chosen_by(condition(partition, column, entities.dialect)) for partition in partitions]
            assert sorted(place for places in chosen for place in places) == expected
