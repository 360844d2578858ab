"""What starts a workflow in a database, and what it returns: implemented outside of this package."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from stepwell.workflow.request import Request
from stepwell.workflow.steps import DeclaredStep
from stepwell.workflow.template import Template

R = TypeVar("R")


class Run(Protocol):
    """A workflow that was started."""

    def result(self, step: DeclaredStep[R], timeout: float | None = None) -> R:
        """Wait for the end of a step and return its result: a list, if it is a map; the answer, if it is a gate."""
        ...


class Starter(Protocol):
    """Writes the rows of a workflow."""

    def start(self, template: Template, context_json: str, request: Request, *, connection: Any = None) -> Run: ...
