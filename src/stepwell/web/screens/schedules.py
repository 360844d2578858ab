"""Schedules: what fires next, which slots were skipped and why, and everything that their administrator does."""

from __future__ import annotations

from datetime import timedelta
from math import isfinite, nan
from typing import Any, Final

from stepwell.model import codec
from stepwell.model.errors import CronParseError, StepwellError
from stepwell.schedule.cron.expression import CronExpression
from stepwell.schedule.definition import Definition
from stepwell.schedule.errors import ScheduleNotFound
from stepwell.schedule.schedule import Schedule
from stepwell.web.screens.asked import Asked, Form, View, moment_of
from stepwell.web.screens.commands import command

EXECUTIONS: Final = 30
SLOTS: Final = 40
_NUMBERS: Final = ("max_retry", "timeout_seconds", "misfire_limit")
_SECONDS: Final = ("start_deadline", "jitter", "expect_within")


def schedules(asked: Asked) -> View:
    rows = asked.app.schedules.list()
    overdue = {each.schedule: each for each in asked.app.schedules.overdue()}
    rows.sort(key=lambda row: (row.next_slot is None, row.next_slot or row.created_at))
    return View(
        template="schedules.html",
        title="Schedules",
        cli=command("schedules", "list"),
        screen="Schedules",
        data={"rows": rows, "overdue": overdue, "words": {row.id: _words(row.definition) for row in rows}},
    )


def schedule(asked: Asked) -> View:
    found = _found(asked)
    of = asked.app.schedules
    status = asked.get("status") or None
    return View(
        template="schedule.html",
        title=f"{found.name} · schedule",
        cli=command("schedules", "show", found.name),
        screen="Schedules",
        data={
            "schedule": found,
            "definition": found.definition,
            "words": _words(found.definition),
            "upcoming": of.next(found.name, 5),
            "slots": of.slots(found.name, limit=SLOTS)[::-1],
            "executions": of.executions(found.name, status=status, limit=EXECUTIONS),
            "changes": of.changes(found.name)[::-1][:20],
            "status": status,
            "day_ago": asked.now - timedelta(days=1),
        },
    )


def new_schedule(asked: Asked) -> View:
    """An empty form; handlers that workers have recorded are offered."""
    definition = Definition(expression=asked.get("expression", "0 4 * * *"), handler=asked.get("handler"))
    return View(
        template="schedule_form.html",
        title="New schedule",
        cli="stepwell schedules add NAME EXPRESSION JOB",
        screen="Schedules",
        data={
            "schedule": None,
            "definition": definition,
            "handlers": [job.name for job in asked.app.reader.jobs()],
            "edit": None,
        },
        live=False,
    )


def edit_schedule(asked: Asked) -> View:
    """The form; after a change, the next slots before and after it."""
    found = _found(asked)
    changes = _changes(asked, Form(asked.query), found.definition) if asked.get("expression") else {}
    edit = asked.app.schedules.edit(found.name, who="preview", preview=True, **changes) if changes else None
    definition = found.definition
    if changes:
        from msgspec import structs

        named = {("zone" if key == "tz" else key): value for key, value in changes.items()}
        definition = structs.replace(definition, **named)
    return View(
        template="schedule_form.html",
        title=f"Edit {found.name}",
        cli=command("schedules", "edit", found.name, **_options(changes)),
        screen="Schedules",
        data={
            "schedule": found,
            "definition": definition,
            "handlers": [job.name for job in asked.app.reader.jobs()],
            "edit": edit,
        },
        live=False,
    )


def backfill(asked: Asked) -> View:
    """Which slots of a period would run."""
    found = _found(asked)
    first, last = moment_of(asked.get("first")), moment_of(asked.get("last"))
    plan = asked.app.schedules.backfill(found.name, first, last, who="preview", preview=True)
    return View(
        template="backfill.html",
        title=f"Backfill {found.name}",
        cli=command("schedules", "backfill", found.name, first.isoformat(), last.isoformat()),
        screen="Schedules",
        data={"schedule": found, "first": first, "last": last, "plan": plan},
        live=False,
    )


# actions ------------------------------------------------------------------------------------------------


def create(asked: Asked, form: Form, who: str) -> str:
    name = form.get("name")
    settings = _changes(asked, form, Definition(expression="", handler=""))
    expression, handler = settings.pop("expression", ""), settings.pop("handler", "")
    made = asked.app.schedules.create(
        name,
        expression,
        handler,
        settings.pop("params", {}),
        who=who,
        why=form.get("why") or None,
        tz=settings.pop("tz", "UTC"),
        **settings,
    )
    return asked.link(f"/schedules/{made.id}")


def save(asked: Asked, form: Form, who: str) -> str:
    found = _found(asked)
    changes = _changes(asked, form, found.definition)
    if changes:
        asked.app.schedules.edit(found.name, who=who, why=form.get("why") or None, **changes)
    return asked.link(f"/schedules/{found.id}")


def act(asked: Asked, form: Form, who: str) -> str:
    """Enable, disable or run now."""
    found, of, why = _found(asked), asked.app.schedules, form.get("why") or None
    match asked.params["what"]:
        case "enable":
            of.enable(found.name, who=who, why=why)
        case "disable":
            of.disable(found.name, who=who, why=why)
        case "run":
            of.run_now(found.name, who=who, why=why)
        case what:
            raise StepwellError(f"unknown action {what!r}; nothing changed")
    return asked.link(f"/schedules/{found.id}")


def reset(asked: Asked, form: Form, who: str) -> str:
    """Give the fields that operators changed back to the code."""
    found = _found(asked)
    asked.app.schedules.reset(found.name, who=who, why=form.get("why") or None)
    return asked.link(f"/schedules/{found.id}")


def delete(asked: Asked, form: Form, who: str) -> str:
    found = _found(asked)
    if form.get("name") != found.name:
        raise StepwellError(f"type the name {found.name!r} to delete it; nothing changed")
    asked.app.schedules.delete(found.name, who=who, why=form.get("why") or None, force=bool(form.get("force")))
    return asked.link("/schedules")


def run_backfill(asked: Asked, form: Form, who: str) -> str:
    found = _found(asked)
    first, last = moment_of(form.get("first")), moment_of(form.get("last"))
    asked.app.schedules.backfill(found.name, first, last, who=who, why=form.get("why") or None)
    return asked.link(f"/schedules/{found.id}")


# ------------------------------------------------------------------------------------------------------


def _found(asked: Asked) -> Schedule:
    number = asked.id(ScheduleNotFound)
    for row in asked.app.schedules.list():
        if row.id == number:
            return row
    raise ScheduleNotFound(f"no schedule has the id {number}; it may have been deleted")


def _words(definition: Definition) -> str:
    """An expression in words."""
    try:
        return CronExpression.parse(definition.expression, zone=definition.zone, seed="").describe()
    except CronParseError as error:
        return f"invalid: {error}"


def _changes(asked: Asked, form: Form, before: Definition) -> dict[str, Any]:
    """The fields of a form that differ from a definition; `tz` is the zone."""
    given, redaction = dict(form.fields), asked.app.redaction
    values: dict[str, Any] = {}
    for name in ("expression", "handler", "target", "misfire"):
        if given.get(name, "").strip():
            values[name] = given[name].strip()
    if given.get("tz", "").strip():
        values["zone"] = given["tz"].strip()
    if "description" in given:
        values["description"] = given["description"].strip() or None
    for name in _NUMBERS:
        if given.get(name, "").strip():
            values[name] = _whole(name, given[name])
    for name in _SECONDS:
        if name in given:
            text = given[name].strip()
            values[name] = float(_number(name, text)) if text else (0.0 if name == "jitter" else None)
    if "overlap" in given:
        values["allow_overlap"] = given["overlap"] == "yes"
    if given.get("params", "").strip():
        values["params"] = redaction.restored(_params(given["params"]), before.params)
        redaction.refuse_hidden(values["params"], "the parameters")
    changed = {name: value for name, value in values.items() if getattr(before, name) != value}
    if "zone" in changed:
        changed["tz"] = changed.pop("zone")
    return changed


def _number(name: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = nan
    if not isfinite(found):
        raise StepwellError(f"{name.replace('_', ' ')} is {text[:100]!r}, which is not a number; nothing changed")
    return found


def _whole(name: str, text: str) -> int:
    found = _number(name, text)
    if not found.is_integer():
        raise StepwellError(f"{name.replace('_', ' ')} is {text[:100]!r}, which is not a whole number; nothing changed")
    return int(found)


def _params(text: str) -> dict[str, Any]:
    try:
        found = codec.decode(text)
    except ValueError as error:
        raise StepwellError(f"the parameters are not valid JSON: {error}; nothing changed") from error
    if not isinstance(found, dict):
        raise StepwellError('the parameters must be an object, like {"day": "today"}; nothing changed')
    return found


def _options(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: codec.encode(value) if isinstance(value, dict) else value for name, value in changes.items()}
