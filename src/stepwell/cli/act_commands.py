"""Doing something to a step: `retry`, `cancel`, `skip`. Each is on record with who and why."""

from __future__ import annotations

import click

from stepwell.cli.output import Output, of_state
from stepwell.cli.parameters import accountable
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
@accountable
@database_option
@json_option
@click.pass_obj
def retry(target: Target, step: str, who: str, why: str | None, as_json: bool) -> None:
    """Bring a Failed, Stopped or Cancelled step back, with all that went with it.

    Its counters go to 0. What stood behind it or ended with it comes back, too, and so do the ancestors that failed
    only through it.
    """
    with target.open() as app:
        revived = app.retry(step, who=who, why=why)
        now = app.step(step)
    if as_json:
        click.echo(to_json({"step": now, "revived": revived}))
        return
    others = [number for number in revived if number != now.id]
    _write(now, f" again; {_numbers(others)} came back with it" if others else " again")


@click.command()
@click.argument("step")
@accountable
@database_option
@json_option
@click.pass_obj
def cancel(target: Target, step: str, who: str, why: str | None, as_json: bool) -> None:
    """Cancel a step; the next ticks cancel everything unfinished below it."""
    with target.open() as app:
        app.cancel(step, who=who, why=why)
        now = app.step(step)
    if as_json:
        click.echo(to_json({"step": now}))
        return
    held = f"; its process is told and lets go soon (worker {now.lease_worker})" if now.lease_worker else ""
    _write(now, held + ("; what is below it follows with the next ticks" if now.has_children else ""))


@click.command()
@click.argument("step")
@accountable
@database_option
@json_option
@click.pass_obj
def skip(target: Target, step: str, who: str, why: str | None, as_json: bool) -> None:
    """Conclude a step without running it; what waited for it may go on, what is below it is skipped."""
    with target.open() as app:
        app.skip(step, who=who, why=why)
        now = app.step(step)
    if as_json:
        click.echo(to_json({"step": now}))
        return
    _write(now, "; what is below it follows with the next ticks" if now.has_children else "")
