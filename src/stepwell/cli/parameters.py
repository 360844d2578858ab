"""Parameters of commands: states, objects, steps, groups, and who acts and why."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import click

from stepwell.cli.errors import Problem
from stepwell.cli.subjects import step_or_run
from stepwell.model.states import State
from stepwell.model.step import Step
from stepwell.model.suggest import hint, warn_of_unknown_group
from stepwell.model.times import seconds_of_text

if TYPE_CHECKING:
    from stepwell import Stepwell

F = TypeVar("F", bound=Callable[..., Any])

STATE: Final = click.Choice([str(state) for state in State], case_sensitive=False)


def relatable(text: str) -> tuple[str, str]:
    """An object that steps are about, as TYPE:ID.

    >>> relatable("invoice:42")
    ('invoice', '42')
    """
    kind, _, of = text.partition(":")
    if not (kind and of):
        raise click.BadParameter(f"{text!r}: expected TYPE:ID, like invoice:42")
    return kind, of


def argument(text: str) -> tuple[str, str]:
    """The value of an argument, as PATH=VALUE.

    >>> argument("customer.id=7")
    ('customer.id', '7')
    """
    path, equals, value = text.partition("=")
    if not (path and equals):
        raise click.BadParameter(f"{text!r}: expected PATH=VALUE, like customer.id=7")
    return path, value


def duration(text: str) -> float:
    """A duration in seconds, as the configuration writes it.

    >>> duration("20m"), duration("1h30m"), duration("90")
    (1200.0, 5400.0, 90.0)
    """
    seconds = seconds_of_text(text)
    if seconds is None:
        raise click.BadParameter(f"{text!r}: expected a duration, like 20m, 1h30m or 90 (seconds)")
    return seconds


def workflow_of(app: Stepwell, text: str) -> str:
    """The workflow of a step, or the one whose id this is, or begins with this."""
    try:
        return str(UUID(text))
    except ValueError:
        return existing_workflow(app, text)


def existing_workflow(app: Stepwell, text: str) -> str:
    """The same, but refused if there is neither such a step nor such a declared workflow."""
    found = step_or_run(app, text)
    return found.workflow_id or found.uuid if isinstance(found, Step) else found.id


def known_group(app: Stepwell, group: str) -> str:
    """The group, which must exist: a typo must not look like an empty group."""
    names = [row.group for row in app.groups()]
    if group not in names:
        raise Problem(f"unknown group {group!r}; {hint(group, names, 'groups')}")
    return group


def warn_of_unknown_groups(app: Stepwell, groups: Collection[str], who: str) -> None:
    """Not refused: a group that is not in the rotation comes into being with its first step."""
    if groups:
        known = [row.group for row in app.groups()]
        for group in groups:
            warn_of_unknown_group(group, known, who)


def os_user() -> str:
    """The login of whoever runs the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        return f"uid {os.getuid()}"


def who_and_why_options(function: F) -> F:
    """`--who` and `--why`, which the history records."""
    who = click.option("--who", default=os_user, help="Who does it (recorded).  [default: your login]")
    why = click.option("--why", help="Why (recorded).")
    return who(why(function))
