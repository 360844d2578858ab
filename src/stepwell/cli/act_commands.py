"""Acting on steps: `retry`, `cancel`, `skip`. The history records who did it and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from stepwell.cli.bulk import act_in_bulk
from stepwell.cli.errors import Misuse
from stepwell.cli.output import Output, of_state
from stepwell.cli.parameters import STATE, relatable, who_and_why_options, workflow_of
from stepwell.cli.subjects import step_like
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import to_json
from stepwell.model.step import Step

F = TypeVar("F", bound=Callable[..., Any])


def filter_options(function: F) -> F:
    """The steps that an action is about: one by its id, or all that match."""
    for option in reversed(
        [
            click.argument("step", required=False),
            click.option(
                "--state", "states", type=STATE, metavar="STATE", multiple=True, help="All in this state (repeatable)."
            ),
            click.option("--action", help="All of this action."),
            click.option("--queue", help="All of this queue."),
            click.option("--group", help="All of this group."),
            click.option(
                "--workflow", metavar="STEP|WORKFLOW", help="All of this workflow, or of this step's workflow."
            ),
            click.option("--relatable", type=relatable, metavar="TYPE:ID", help="All about this object."),
            click.option("--preview", is_flag=True, help="Only show what would happen to the steps that match."),
            click.option("--yes", is_flag=True, help="Do not ask before acting on many."),
        ]
    ):
        function = option(function)
    return function


def _in_bulk(
    target: Target,
    kind: str,
    step: str | None,
    states: tuple[str, ...],
    workflow: str | None,
    preview: bool,
    yes: bool,
    who: str,
    why: str | None,
    as_json: bool,
    **filters: Any,
) -> bool:
    """Act on the steps that match; returns False if the command names a single step instead."""
    given = {name: value for name, value in filters.items() if value is not None}
    is_filtered = bool(given or states or workflow is not None)
    if step is None and not is_filtered:
        raise Misuse(f"`stepwell {kind}` needs a STEP, or filters like --state and --action; nothing changed")
    if step is not None and is_filtered:
        raise Misuse("name one STEP or filters, not both; nothing changed")
    if step is not None and not preview:
        return False
    with target.open() as app:
        if step is not None:
            given["id"] = [step_like(app, step).id]
        if states:
            given["state"] = list(states)
        if workflow is not None:
            given["workflow"] = workflow_of(app, workflow)
        act_in_bulk(app, kind, given, who=who, why=why, only_preview=preview, yes=yes, as_json=as_json)
    return True


def _numbers(ids: list[int]) -> str:
    shown = ", ".join(map(str, ids[:10]))
    more = f" and {len(ids) - 10:,} more" if len(ids) > 10 else ""
    return f"step{'' if len(ids) == 1 else 's'} {shown}{more}"


def _write(step: Step, then: str) -> None:
    Output().line(f"step {step.id} ({step.name}) is ", of_state(step.state), then)


@click.command()
@filter_options
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def retry(target: Target, /, step: str, who: str, why: str | None, as_json: bool, **bulk: Any) -> None:
    """Return a Failed, Stopped or Cancelled step to Pending, with everything that ended because of it.

    Its counters are reset to 0, and it can start now. Descendants and later steps that ended with it are revived, and
    so are ancestors that failed only because of it; a step that was planned for a later time keeps that time. Exception
    handlers that have already run do not run again.
    """
    if _in_bulk(target, "retry", step, who=who, why=why, as_json=as_json, **bulk):
        return
    with target.open() as app:
        found = step_like(app, step)
        retried = app.retry(found.id, who=who, why=why)
        now = app.step(found.id)
    if as_json:
        click.echo(to_json({"step": now, "revived": retried.revived, "handlers_done": retried.handlers_done}))
        return
    others = [number for number in retried.revived if number != now.id]
    _write(now, f" again; also revived: {_numbers(others)}" if others else " again")
    if retried.handlers_done:
        handlers = _numbers(retried.handlers_done)
        Output().line(f"exception handlers that have already run and will not run again: {handlers}")


@click.command()
@filter_options
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def cancel(target: Target, /, step: str, who: str, why: str | None, as_json: bool, **bulk: Any) -> None:
    """Cancel a step; the next ticks cancel its unfinished descendants."""
    if _in_bulk(target, "cancel", step, who=who, why=why, as_json=as_json, **bulk):
        return
    with target.open() as app:
        found = step_like(app, step)
        app.cancel(found.id, who=who, why=why)
        now = app.step(found.id)
    if as_json:
        click.echo(to_json({"step": now}))
        return
    stopping = f"; worker {now.lease_worker} has been asked to stop it" if now.lease_worker else ""
    _write(now, stopping + ("; the next ticks cancel its descendants" if now.has_children else ""))


@click.command()
@filter_options
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def skip(target: Target, /, step: str, who: str, why: str | None, as_json: bool, **bulk: Any) -> None:
    """Conclude a step without running it. Steps that waited for it may run; its descendants are skipped."""
    if _in_bulk(target, "skip", step, who=who, why=why, as_json=as_json, **bulk):
        return
    with target.open() as app:
        found = step_like(app, step)
        app.skip(found.id, who=who, why=why)
        now = app.step(found.id)
    if as_json:
        click.echo(to_json({"step": now}))
        return
    _write(now, "; the next ticks skip its descendants" if now.has_children else "")
