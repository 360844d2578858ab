"""The schema of the tables on PostgreSQL: named by the URL (`?schema=jobs`), else found through the search path.

A named schema is written into the text of every statement. So it holds on a caller's connection, whose search path
stays as it is, and behind a pooler, where no setting of a session does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from stepwell.model.errors import StepwellError
from stepwell.store.definitions import SCHEMA_FOLDER
from stepwell.store.macros import POSTGRES

MALFORMED: Final = (
    "the database URL is malformed, and is not shown because it may contain a password; nothing was started. Expected "
    "postgresql://user:password@host:5432/name?parameter=value: write special characters of the password as %XX "
    "(@ is %40, : is %3A, / is %2F, ? is %3F, # is %23, % is %25)"
)
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_CREATED: Final = re.compile(r"^CREATE (?:OR REPLACE )?(?:TABLE|SEQUENCE|VIEW|FUNCTION) (\w+)", re.MULTILINE)
_NOT_A_RELATION: Final = ("AS ", "TRIGGER ", "TRIGGER IF EXISTS ")  # what comes before a name that is none


@dataclass(frozen=True, slots=True)
class Namespace:
    """Where the tables are; without a schema, wherever the search path leads."""

    schema: str | None = None
    key: str = field(init=False, repr=False)  # identifies the text that `qualify` returns

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", POSTGRES if self.schema is None else f"{POSTGRES} {self.schema}")

    def qualify(self, sql: str) -> str:
        """The statement with the schema before the name of each table, view, sequence and function of Stepwell.

        >>> print(Namespace("jobs").qualify("SELECT count(*) AS steps FROM steps WHERE label = 'two steps'"))
        SELECT count(*) AS steps FROM "jobs".steps WHERE label = 'two steps'
        """
        return sql if self.schema is None else _qualified(sql, self.schema)


def split_url(url: str) -> tuple[str, Namespace]:
    """The URL as the driver takes it, and the namespace that it names.

    >>> split_url("postgresql://db/shop?schema=jobs&sslmode=require")
    ('postgresql://db/shop?sslmode=require', Namespace(schema='jobs'))
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # a bracket of an IPv6 address without the other
        raise StepwellError(MALFORMED) from None
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    named = [value for name, value in pairs if name == "schema"]
    if not named:
        return url, Namespace()
    if len(named) > 1 or not _NAME.fullmatch(named[0]) or named[0].startswith("pg_"):
        raise StepwellError(
            f"schema={', '.join(named)} in the URL of the database: expected one name of at most 63 lower-case "
            "letters, digits and underscores, like ?schema=jobs, that does not begin with a digit or pg_"
        )
    rest = urlencode([(name, value) for name, value in pairs if name != "schema"], quote_via=quote)
    return parts._replace(query=rest).geturl(), Namespace(named[0])


@cache
def _token() -> re.Pattern[str]:
    """A comment, a string, or a name that may have to be qualified."""
    scripts = sorted([*(SCHEMA_FOLDER / POSTGRES).glob("*.sql"), *SCHEMA_FOLDER.glob("*.sql")])
    names = {name for path in scripts for name in _CREATED.findall(path.read_text(encoding="utf-8"))}
    relations = "|".join(sorted(names | {"steps_id_seq"}))
    return re.compile(rf"--[^\n]*|'(?:[^']|'')*'|current_schema\(\)|(?<![\w.\"])(?:{relations})(?![\w\"])")


@cache
def _qualified(sql: str, schema: str) -> str:
    prefix = '"{}".'.format(schema.replace('"', '""'))

    def qualify(found: re.Match[str]) -> str:
        token = found[0]
        if token == "current_schema()":
            return _literal(schema)
        if token.startswith("--"):
            return token
        if token.startswith("'"):  # the name of a relation as an argument, as in nextval('…')
            name = token[1:-1]
            return _literal(prefix + name) if _is_relation(name) else token
        return token if sql.endswith(_NOT_A_RELATION, 0, found.start()) else prefix + token

    return _token().sub(qualify, sql)


def _is_relation(text: str) -> bool:
    return text.isidentifier() and _token().fullmatch(text) is not None


def _literal(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))
