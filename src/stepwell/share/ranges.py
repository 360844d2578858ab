"""How a step's work is split: parts of all entities, told apart by the first hex character of a hash of their id.

The hash is md5 over the id's text, because most databases can compute it (PostgreSQL and MySQL have `md5()`; SQLite can
be taught it) or hold it in a column. Nothing here needs it to be secret or safe from collisions, only evenly spread.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from stepwell.model.errors import StepwellError

HEX: Final = "0123456789abcdef"

Uid: TypeAlias = str | int | UUID
Dialect: TypeAlias = Literal["sqlite", "postgres"]

# At most schema.table.column. Names are not quoted: PostgreSQL would no longer fold their case, and SQLite
# would take a quoted name that it does not know for a text.
_COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){0,2}", re.ASCII)


class InvalidRange(StepwellError, ValueError):
    """Work that cannot be split like that."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A piece of a WHERE clause and its parameters, both in the style of the database's driver."""

    sql: str
    parameters: dict[str, str]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the work: the entities whose hash begins with one of these characters."""

    number: int
    characters: str

    def holds(self, uid: Uid) -> bool:
        """Whether this entity belongs to the part.

        >>> Part(1, "01234567").holds("customer-7"), hash_of("customer-7")[0]
        (True, '0')
        """
        return hash_of(uid)[0] in self.characters

    def condition(self, column: str, dialect: Dialect) -> Condition:
        """The part's rows, by a column that holds the hash, in capitals or not.

        >>> Part(2, "ef").condition("customers.hash", "sqlite")
        Condition(sql='lower(substr(customers.hash, 1, 1)) IN (:part_0, :part_1)',
                  parameters={'part_0': 'e', 'part_1': 'f'})
        """
        return self._among(f"lower(substr({_safe(column)}, 1, 1))", dialect)

    def condition_on_uid(self, column: str, dialect: Dialect) -> Condition:
        """The part's rows, by the column of the id itself. A connection to SQLite needs `teach_md5` first.

        >>> Part(2, "f").condition_on_uid("customers.id", "postgres").sql
        'substr(md5(CAST(customers.id AS text)), 1, 1) IN (%(part_0)s)'
        """
        return self._among(f"substr(md5(CAST({_safe(column)} AS text)), 1, 1)", dialect)

    def _among(self, expression: str, dialect: Dialect) -> Condition:
        # The only part of the work is all of it: also the rows without an id or a hash.
        if len(self.characters) == len(HEX):
            return Condition("1 = 1", {})
        parameters = {f"part_{place}": character for place, character in enumerate(self.characters)}
        marks = ", ".join(f":{name}" if dialect == "sqlite" else f"%({name})s" for name in parameters)
        return Condition(f"{expression} IN ({marks})", parameters)


@dataclass(frozen=True, slots=True)
class HashRange:
    """Splits the work into as many parts as there are resources: disjoint, of even size, larger ones first.

    >>> [part.characters for part in HashRange(resources=3).parts()]
    ['012345', '6789a', 'bcdef']
    """

    resources: int

    def __post_init__(self) -> None:
        if type(self.resources) is not int or not 1 <= self.resources <= len(HEX):
            raise InvalidRange(
                f"a HashRange cannot have {self.resources!r} resources: it splits the work over the {len(HEX)} hex "
                f"characters of a hash, so give it a whole number from 1 to {len(HEX)}"
            )

    def parts(self) -> list[Part]:
        size, larger = divmod(len(HEX), self.resources)
        ends = [size * number + min(number, larger) for number in range(self.resources + 1)]
        return [Part(number, HEX[ends[number - 1] : ends[number]]) for number in range(1, self.resources + 1)]

    def part_of(self, uid: Uid) -> Part:
        """The one part that this entity belongs to.

        >>> HashRange(resources=4).part_of("customer-7")
        Part(number=1, characters='0123')
        """
        return next(part for part in self.parts() if part.holds(uid))


@dataclass(frozen=True, slots=True)
class UniqueId:
    """Does not split: one part, with all of the work.

    >>> UniqueId().parts()
    [Part(number=1, characters='0123456789abcdef')]
    """

    def parts(self) -> list[Part]:
        return [Part(1, HEX)]

    def part_of(self, uid: Uid) -> Part:
        return self.parts()[0]


def hash_of(uid: Uid) -> str:
    """The md5 of an id's text in UTF-8: what `md5(CAST(id AS text))` says in PostgreSQL.

    >>> hash_of(7) == hash_of("7")
    True
    """
    if isinstance(uid, bool) or not isinstance(uid, str | int | UUID):
        raise InvalidRange(
            f"{uid!r} cannot be the id of an entity: databases write a {type(uid).__name__} in different ways, so give "
            "its text, a whole number or a UUID"
        )
    return hashlib.md5(str(uid).encode(), usedforsecurity=False).hexdigest()


def teach_md5(connection: sqlite3.Connection) -> None:
    """Give this connection to SQLite the function `md5` that other databases have."""

    def md5(text: Any) -> str | None:
        return None if text is None else hash_of(text)

    connection.create_function("md5", 1, md5, deterministic=True)


def _safe(column: str) -> str:
    if not _COLUMN.fullmatch(column):
        raise InvalidRange(
            f"{column!r} is not the plain name of a column; write it like hash, customers.hash or shop.customers.hash"
        )
    return column
