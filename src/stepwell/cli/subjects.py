"""What a command is about: a step or a declared workflow, by its id or by the beginning of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stepwell.cli.errors import Problem
from stepwell.model.errors import StepNotFound
from stepwell.model.ids import canonical_uuid

if TYPE_CHECKING:
    from stepwell import Run, Step, Stepwell


def run_of(app: Stepwell, text: str) -> Run:
    """A declared workflow by its id, or by the beginning of it."""
    found = app.workflows.ids_like(canonical_uuid(text) or text)
    if len(found) != 1:
        what = "no workflow has" if not found else f"{len(found)} workflows have"
        raise Problem(f"{what} an id that begins with {text!r}; `stepwell workflows list` shows them")
    return app.workflows.run(found[0])


def step_like(app: Stepwell, text: str) -> Step:
    """A step by its id or uuid, or by the beginning of its uuid."""
    try:
        return app.step(text)
    except StepNotFound:
        found = [] if text.isdecimal() else app.reader.ids_like(text)
        if not found:
            raise
    if len(found) > 1:
        raise Problem(f"several steps have a uuid that begins with {text!r}: give more of it, or the id")
    return app.step(found[0])


def step_id(app: Stepwell, text: str) -> int:
    """The id of a step, which need not exist any more if the id itself is given."""
    return int(text) if text.isdecimal() else step_like(app, text).id


def step_or_run(app: Stepwell, text: str) -> Step | Run:
    """A step by its id or uuid, else a declared workflow; of both, the beginning of the uuid is enough."""
    if text.isdecimal() and len(text) < 8:
        return app.step(text)
    try:
        return app.step(text)
    except StepNotFound:
        if app.workflows.ids_like(canonical_uuid(text) or text):
            return run_of(app, text)
    try:
        return step_like(app, text)
    except StepNotFound as error:
        if text.isdecimal() or canonical_uuid(text):
            raise
        raise Problem(f"no step or workflow has an id that begins with {text!r}") from error


def step_of(run: Run, text: str) -> Step:
    """A step of a workflow, by its name in the template or by its id."""
    if not text.isdecimal():
        return run.step(text)
    step = run.app.step(text)
    if step.workflow_id != run.id:
        raise Problem(f"step {text} is not part of workflow {run.id}; nothing changed")
    return step


def short_ids(ids: Sequence[str]) -> list[str]:
    """The beginnings of these ids, up to a hyphen and of one length, that tell them apart.

    >>> short_ids(["01a1f5bf-fc2b-7000-b15a-a867c25aa8af", "01a1f5bf-fc2c-7000-b15a-0c6dff0b3f24"])
    ['01a1f5bf-fc2b', '01a1f5bf-fc2c']
    """
    for length in (13, 18, 23):
        short = [each[:length] for each in ids]
        if len(set(short)) == len(ids):
            return short
    return list(ids)


def moment(text: str) -> datetime:
    """A time in ISO 8601, or as the commands print it; without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text.removesuffix(" UTC").strip())
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: expected a time in ISO 8601, like 2026-01-31T18:30:00Z") from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
