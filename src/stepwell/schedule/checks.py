"""What is wrong with a definition: everything at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from stepwell.define.drafts import is_name
from stepwell.model.errors import CronParseError, StepwellError
from stepwell.model.suggest import hint
from stepwell.model.times import MAX_SECONDS
from stepwell.schedule.cron import check_interval
from stepwell.schedule.definition import Definition, timetable
from stepwell.schedule.errors import InvalidSchedule
from stepwell.schedule.targets import Targets
from stepwell.store import Transaction
from stepwell.store.engine import schedules

_LARGEST: Final = 2**31 - 1  # what PostgreSQL's columns hold


def problems(
    targets: Targets, tx: Transaction, definition: Definition, seed: str, min_interval: timedelta
) -> list[str]:
    """Everything that is wrong with a definition, as far as this process can know."""
    return [
        *_of_times(definition, seed, min_interval),
        *_of_handler(targets, tx, definition),
        *_of_numbers(definition),
        *(f"{name} is {value!r}" for name, value in _odd(definition)),
    ]


def refuse(name: str, found: list[str]) -> None:
    """Raise an error with everything that is wrong."""
    if found:
        raise InvalidSchedule(f"schedule {name!r}: {'; '.join(found)}; nothing was written")


def problem_of_name(name: object) -> list[str]:
    return [] if is_name(name) else ["the name must be 1 to 255 printable characters"]


def _of_times(definition: Definition, seed: str, min_interval: timedelta) -> Iterator[str]:
    try:
        check_interval(timetable(definition.expression, definition.zone, seed), min_interval)
    except CronParseError as error:
        yield str(error)


def _of_handler(targets: Targets, tx: Transaction, definition: Definition) -> Iterator[str]:
    if not isinstance(definition.params, dict):
        yield f"the parameters must be a JSON object, not {str(definition.params)[:80]!r}"
        return
    try:
        if definition.target == "workflow":
            if (workflow := targets.workflow(definition.handler)) is not None:
                workflow.prepared(definition.params, {})
            elif not targets.is_recorded(tx, definition.handler):
                yield f"unknown workflow {definition.handler!r}; start it once, or use the app that declares it (--app)"
        elif definition.handler in targets.jobs:
            targets.jobs.draft(definition.handler, definition.params, {})
        elif not schedules.known_handlers(tx, names=[definition.handler]):
            known = sorted({*targets.jobs.actions(), *schedules.all_handlers(tx)})
            rest = f"; {hint(definition.handler, known, 'jobs')}" if known else ""
            yield f"unknown job {definition.handler!r}: no worker has recorded it{rest}"
    except (StepwellError, TypeError) as error:
        yield f"the parameters do not fit: {str(error).removesuffix('; nothing was written')}"


def _of_numbers(definition: Definition) -> Iterator[str]:
    for name in ("max_retry", "timeout_seconds", "misfire_limit"):
        if (number := getattr(definition, name)) > _LARGEST:
            yield f"{name} is {number}, which is more than {_LARGEST:,}"
    if definition.max_retry < 1:
        yield f"max_retry is {definition.max_retry}: it counts all attempts, so it is at least 1"
    if definition.misfire_limit < 1:
        yield f"misfire_limit is {definition.misfire_limit}, not a whole number of at least 1"
    if not 0 <= definition.timeout_seconds <= MAX_SECONDS:
        yield f"timeout_seconds is {definition.timeout_seconds}, not a number between 0 (none) and a hundred years"
    if not 0 <= definition.jitter <= MAX_SECONDS:
        yield f"jitter is {definition.jitter}, not a number of seconds between 0 and a hundred years"
    for name in ("start_deadline", "expect_within"):
        seconds = getattr(definition, name)
        if seconds is not None and not 0 < seconds <= MAX_SECONDS:
            yield f"{name} is {seconds}, not a number of seconds above 0, up to a hundred years"


def _odd(definition: Definition) -> Iterator[tuple[str, Any]]:
    if definition.misfire not in ("skip", "once", "all"):
        yield "misfire (skip, once or all)", definition.misfire
    if definition.target not in ("job", "workflow"):
        yield "target (job or workflow)", definition.target
