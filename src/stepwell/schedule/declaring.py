"""`@app.cron`: schedules that code declares."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

import msgspec

from stepwell.define.definition import JobDefinition
from stepwell.model.suggest import refuse_unknown
from stepwell.schedule.checks import problem_of_name, refuse
from stepwell.schedule.definition import FIELDS, Definition, timetable
from stepwell.schedule.errors import InvalidSchedule
from stepwell.schedule.schedule import defined
from stepwell.schedule.targets import target_of
from stepwell.workflow.workflow import Workflow

if TYPE_CHECKING:
    from stepwell.app import Stepwell

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


class Declared:
    """What the code of one app declares, by name."""

    def __init__(self) -> None:
        self.definitions: dict[str, Definition] = {}

    def add(self, name: str, definition: Definition) -> None:
        if name in self.definitions:
            raise InvalidSchedule(f"schedule {name!r} is declared twice: give one of them another name (name=…)")
        self.definitions[name] = definition

    def content_hash(self) -> str:
        """Identifies the set: the same code declares the same."""
        return content_hash(self.definitions)


def content_hash(definitions: Mapping[str, Definition]) -> str:
    texts = {name: definition.encoded() for name, definition in definitions.items()}
    return hashlib.sha256(msgspec.json.encode(texts, order="sorted")).hexdigest()


@dataclass(frozen=True, slots=True)
class CronDecorator:
    """`app.cron`: starts a job or a workflow at the times of a cron expression.

    Over a job or a workflow that exists already, or over a function, which becomes a job with default settings. The
    schedule has the name of the job unless `name` is given; `params` are the arguments, `settings` the other fields of
    `Definition`. The first worker or scheduler that starts with this code writes the schedule to the database.

    >>> from stepwell import Stepwell
    >>> app = Stepwell("sqlite://", name="shop")
    >>> @app.cron("30 2 * * MON-FRI", tz="Europe/Berlin", misfire="skip")
    ... def report() -> str:
    ...     return "done"
    >>> app.schedules.reconcile().created
    ['report']
    """

    app: Stepwell

    def __call__(
        self,
        expression: str,
        *,
        tz: str = "UTC",
        name: str | None = None,
        params: dict[str, Any] | None = None,
        **settings: Any,
    ) -> CronRegistration:
        refuse_unknown("app.cron", settings, [field for field in FIELDS if field not in ("expression", "zone")])
        return CronRegistration(
            self.app, name, {**settings, "expression": expression, "zone": tz, "params": params or {}}
        )


@dataclass(frozen=True, slots=True)
class CronRegistration:
    """The decorator that `app.cron(…)` returns."""

    app: Stepwell
    name: str | None
    settings: dict[str, Any]

    @overload
    def __call__(self, code: JobDefinition[P, R]) -> JobDefinition[P, R]: ...
    @overload
    def __call__(self, code: Workflow[C]) -> Workflow[C]: ...
    @overload
    def __call__(self, code: Callable[P, Awaitable[R]]) -> JobDefinition[P, R]: ...
    @overload
    def __call__(self, code: Callable[P, R]) -> JobDefinition[P, R]: ...
    def __call__(self, code: Any) -> Any:
        made = code if isinstance(code, JobDefinition | Workflow) else self.app.job(code)
        target, handler = target_of(made)
        name = handler if self.name is None else self.name
        definition = defined(name, {**self.settings, "target": target, "handler": handler})
        refuse(name, problem_of_name(name))
        timetable(definition.expression, definition.zone, name)  # a mistake is reported where it was made
        self.app.schedules.declared.add(name, definition)
        return made
