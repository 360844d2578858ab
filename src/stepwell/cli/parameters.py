"""What commands take: states, objects, steps, and who is asking."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import click

from stepwell.model.states import State

if TYPE_CHECKING:
    from stepwell import Stepwell

F = TypeVar("F", bound=Callable[..., Any])


class StateType(click.Choice[State]):
    """One of the nine states, in any spelling of case."""

    def __init__(self) -> None:
        super().__init__(list(State), case_sensitive=False)
