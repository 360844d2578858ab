"""Acting on a step: `retry`, `cancel`, `skip`. The history records who did it and why."""

from __future__ import annotations

import click

from stepwell.cli.output import Output, of_state
from stepwell.cli.parameters import who_and_why_options
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import to_json
from stepwell.model.step import Step


def _numbers(ids: list[int]) -> str:
    shown = ", ".join(map(str, ids[:10]))
    more = f" and {len(ids) - 10:,} more" if len(ids) > 10 else ""
    return f"step{'' if len(ids) == 1 else 's'} {shown}{more}"


def _write(step: Step, then: str) -> None:
    Output().line(f"step {step.id} ({step.name}) is ", of_state(step.state), then)


@click.command()
@click.argument("step")
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def retry(target: Target, step: str, who: str, why: str | None, as_json: bool) -> None:
    """Return a Failed, Stopped or Cancelled step to Pending, with everything that ended because of it.

    Its counters are reset to 0, and it can start now. Descendants and later steps that ended with it are revived, and
    so are ancestors that failed only because of it; a step that was planned for a later time keeps that time. Exception
    handlers that have already run do not run again.
    """
    with target.open() as app:
        retried = app.retry(step, who=who, why=why)
        now = app.step(step)
    if as_json:
        click.echo(to_json({"step": now, "revived": retried.revived, "handlers_done": retried.handlers_done}))
        return
    others = [number for number in retried.revived if number != now.id]
    _write(now, f" again; also revived: {_numbers(others)}" if others else " again")
    if retried.handlers_done:
        handlers = _numbers(retried.handlers_done)
        Output().line(f"exception handlers that have already run and will not run again: {handlers}")


@click.command()
@click.argument("step")
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def cancel(target: Target, step: str, who: str, why: str | None, as_json: bool) -> None:
    """Cancel a step; the next ticks cancel its unfinished descendants."""
    with target.open() as app:
        app.cancel(step, who=who, why=why)
        now = app.step(step)
    if as_json:
        click.echo(to_json({"step": now}))
        return
    stopping = f"; worker {now.lease_worker} has been asked to stop it" if now.lease_worker else ""
    _write(now, stopping + ("; the next ticks cancel its descendants" if now.has_children else ""))


@click.command()
@click.argument("step")
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def skip(target: Target, step: str, who: str, why: str | None, as_json: bool) -> None:
    """Conclude a step without running it. Steps that waited for it may run; its descendants are skipped."""
    with target.open() as app:
        app.skip(step, who=who, why=why)
        now = app.step(step)
    if as_json:
        click.echo(to_json({"step": now}))
        return
    _write(now, "; the next ticks skip its descendants" if now.has_children else "")
