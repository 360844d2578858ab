"""The definition of a schedule: what people and code can set. Frozen, no I/O."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stepwell.model import codec
from stepwell.schedule.cron import CronExpression
from stepwell.store.engine.schedules import CronRow

Target: TypeAlias = Literal["job", "workflow"]
Misfire: TypeAlias = Literal["skip", "once", "all"]

MAX_RETRY: Final = 3
TIMEOUT_SECONDS: Final = 3600
# What an outage of a night at one slot per five minutes leaves behind; more is rarely wanted at once.
MISFIRE_LIMIT: Final = 100


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a schedule that can be set. Times are seconds."""

    expression: str
    handler: str  # the name of a job, or of a workflow as `namespace.name`
    zone: str = "UTC"
    target: Target = "job"
    params: Any = msgspec.field(default_factory=dict)  # an object; plain SQL may write anything
    description: str | None = None
    enabled: bool = True
    max_retry: int = MAX_RETRY  # attempts in all
    timeout_seconds: int = TIMEOUT_SECONDS
    misfire: Misfire = "once"
    misfire_limit: int = MISFIRE_LIMIT
    start_deadline: float | None = None
    allow_overlap: bool = True
    jitter: float = 0.0
    expect_within: float | None = None

    def encoded(self) -> str:
        """As it is recorded."""
        return msgspec.json.encode(self, order="deterministic").decode()

    def timing(self) -> tuple[str, str, bool]:
        """What decides when slots are: a change of it never fires past slots."""
        return self.expression, self.zone, self.enabled


FIELDS: Final = Definition.__struct_fields__
# What an operator steers even if code declares the schedule.
OF_OPERATORS: Final = frozenset({"enabled"})

_NO_NUMBER: Final = -1.0  # refused by the checks
_COLUMNS: Final = {
    "expression": "cron_expression",
    "handler": "handler_name",
    "enabled": "is_enabled",
}


def decoded(text: str) -> Definition:
    """A recorded definition."""
    return msgspec.json.decode(text, type=Definition)


def of_row(row: CronRow) -> Definition:
    """The definition in the columns of a row; plain SQL may have written anything into them."""
    values = {name: getattr(row, _COLUMNS.get(name, name)) for name in FIELDS if name != "params"}
    finite: dict[str, Any] = {name: _NO_NUMBER if _is_odd(value) else value for name, value in values.items()}
    return Definition(params=_params(row.handler_params), **finite)


def _is_odd(value: object) -> bool:
    """PostgreSQL stores NaN and infinity, which JSON does not have."""
    return isinstance(value, float) and not math.isfinite(value)


def recorded(row: CronRow) -> Definition:
    """The definition that schedulers go by."""
    return of_row(row) if row.recorded is None else decoded(row.recorded)


def _params(text: str | None) -> Any:
    try:
        decoded = None if not text else codec.decode(text)
    except ValueError:
        return text  # refused by the checks
    return {} if decoded is None else decoded


def columns_of(definition: Definition) -> dict[str, Any]:
    """The definition as parameters of the verbs that write it."""
    values = {name: getattr(definition, name) for name in FIELDS}
    params = definition.params  # of plain SQL: perhaps a text that is no JSON
    values["params"] = params if isinstance(params, str) else codec.encode(params) if params else None
    values["enabled"], values["allow_overlap"] = int(definition.enabled), int(definition.allow_overlap)
    return values


def changed_fields(before: Definition, after: Definition) -> list[str]:
    """The names of the fields in which two definitions differ."""
    return [name for name in FIELDS if getattr(before, name) != getattr(after, name)]


@lru_cache(maxsize=32_768)
def timetable(expression: str, zone: str, seed: str) -> CronExpression:
    """The parsed expression; raises `CronParseError`."""
    return CronExpression.parse(expression, zone=zone, seed=seed)


def timetable_of(row: CronRow, definition: Definition | None = None) -> CronExpression:
    """The slots of a schedule, by its recorded definition unless another is given."""
    definition = definition or recorded(row)
    return timetable(definition.expression, definition.zone, seed_of(row))


def seed_of(row: CronRow) -> str:
    """What `H` hashes: chosen when the schedule was created, so that a new name moves nothing."""
    return row.name if row.hash_seed is None else row.hash_seed
