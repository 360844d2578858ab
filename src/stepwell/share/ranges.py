"""How a step's work is split: entities are partitioned by the first hex character of a hash of their id.

The hash is the MD5 of the id's text, because most databases can compute it (PostgreSQL and MySQL have `md5()`, SQLite
gets it from `register_md5`) or store it in a column. It need not be cryptographically secure, only evenly distributed.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from uuid import UUID

from stepwell.model.errors import StepwellError

if TYPE_CHECKING:
    import sqlite3

HEX: Final = "0123456789abcdef"

Uid: TypeAlias = str | int | UUID
Dialect: TypeAlias = Literal["sqlite", "postgres"]

# At most schema.table.column. Names are not quoted: PostgreSQL would no longer fold their case, and SQLite
# would treat an unknown quoted name as a string literal.
_COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){0,2}", re.ASCII)


class InvalidRange(StepwellError, ValueError):
    """A split of the work that is not possible."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A piece of a WHERE clause and its parameters, both in the style of the database's driver."""

    sql: str
    parameters: dict[str, str]


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of the work: the entities whose hash begins with one of these characters."""

    number: int
    characters: str

    def contains(self, uid: Uid) -> bool:
        """Whether this entity belongs to the partition.

        >>> Partition(1, "01234567").contains("customer-7"), hash_of("customer-7")[0]
        (True, '0')
        """
        return hash_of(uid)[0] in self.characters

    def condition(self, column: str, dialect: Dialect) -> Condition:
        """The partition's rows, by a column that holds the hash, in upper or lower case.

        >>> Partition(2, "ef").condition("customers.hash", "sqlite")
        Condition(sql='lower(substr(customers.hash, 1, 1)) IN (:partition_0, :partition_1)',
                  parameters={'partition_0': 'e', 'partition_1': 'f'})
        """
        return self._among(f"lower(substr({_safe(column)}, 1, 1))", dialect)

    def condition_on_uid(self, column: str, dialect: Dialect) -> Condition:
        """The partition's rows, by the column of the id itself. A connection to SQLite needs `register_md5` first.

        >>> Partition(2, "f").condition_on_uid("customers.id", "postgres").sql
        'substr(md5(CAST(customers.id AS text)), 1, 1) IN (%(partition_0)s)'
        """
        return self._among(f"substr(md5(CAST({_safe(column)} AS text)), 1, 1)", dialect)

    def _among(self, expression: str, dialect: Dialect) -> Condition:
        # A single partition covers everything, including rows without an id or a hash.
        if len(self.characters) == len(HEX):
            return Condition("1 = 1", {})
        parameters = {f"partition_{place}": character for place, character in enumerate(self.characters)}
        marks = ", ".join(f":{name}" if dialect == "sqlite" else f"%({name})s" for name in parameters)
        return Condition(f"{expression} IN ({marks})", parameters)


@dataclass(frozen=True, slots=True)
class HashRange:
    """Splits the work into as many partitions as there are resources: disjoint, of even size, larger ones first.

    >>> [partition.characters for partition in HashRange(resources=3).partitions()]
    ['012345', '6789a', 'bcdef']
    """

    resources: int

    def __post_init__(self) -> None:
        if type(self.resources) is not int or not 1 <= self.resources <= len(HEX):
            raise InvalidRange(
                f"a HashRange cannot have {self.resources!r} resources: it splits the work over the {len(HEX)} hex "
                f"characters of a hash, so pass a whole number from 1 to {len(HEX)}"
            )

    def partitions(self) -> list[Partition]:
        size, larger = divmod(len(HEX), self.resources)
        ends = [size * number + min(number, larger) for number in range(self.resources + 1)]
        return [Partition(number, HEX[ends[number - 1] : ends[number]]) for number in range(1, self.resources + 1)]

    def partition_of(self, uid: Uid) -> Partition:
        """The one partition that this entity belongs to.

        >>> HashRange(resources=4).partition_of("customer-7")
        Partition(number=1, characters='0123')
        """
        return next(partition for partition in self.partitions() if partition.contains(uid))


@dataclass(frozen=True, slots=True)
class UniqueId:
    """No split: one partition with all of the work.

    >>> UniqueId().partitions()
    [Partition(number=1, characters='0123456789abcdef')]
    """

    def partitions(self) -> list[Partition]:
        return [Partition(1, HEX)]

    def partition_of(self, uid: Uid) -> Partition:
        return self.partitions()[0]


def hash_of(uid: Uid) -> str:
    """The MD5 of an id's text in UTF-8: the same as `md5(CAST(id AS text))` in PostgreSQL.

    >>> hash_of(7) == hash_of("7")
    True
    """
    if isinstance(uid, bool) or not isinstance(uid, str | int | UUID):
        raise InvalidRange(
            f"{uid!r} cannot be the id of an entity: databases format a {type(uid).__name__} differently; "
            "pass a string, an integer or a UUID"
        )
    return hashlib.md5(str(uid).encode(), usedforsecurity=False).hexdigest()


def register_md5(connection: sqlite3.Connection) -> None:
    """Define the function `md5`, which other databases have, on this SQLite connection."""

    def md5(text: Any) -> str | None:
        return None if text is None else hash_of(text)

    connection.create_function("md5", 1, md5, deterministic=True)


def _safe(column: str) -> str:
    if not _COLUMN.fullmatch(column):
        raise InvalidRange(f"{column!r} is not a plain column name; write hash, customers.hash or shop.customers.hash")
    return column
