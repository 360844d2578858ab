"""The steps of a workflow as objects of Python: what `@workflow.step` and `workflow.gate` return."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from stepwell.define.definition import JobDefinition

if TYPE_CHECKING:
    from stepwell.workflow.workflow import Workflow

P = ParamSpec("P")
C = TypeVar("C")  # what a call returns
R = TypeVar("R")  # the type of the result: a list, if the step is a map


class DeclaredStep(Generic[R]):
    """A step of a workflow; `run.result(step)` is typed by it."""

    def __init__(self, workflow: Workflow[Any], name: str) -> None:
        self.workflow = workflow
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.workflow}>"


class Gate(DeclaredStep[R]):
    """A step that waits for an answer from outside."""


class CodeStep(DeclaredStep[R], Generic[P, C, R]):
    """A step that runs code. Calling it calls the code, without a database."""

    def __init__(self, workflow: Workflow[Any], name: str, code: Callable[..., Any]) -> None:
        super().__init__(workflow, name)
        self.code = code
        # Not its attributes: a class has methods, and they are not those of the step.
        functools.update_wrapper(self, code.code if isinstance(code, JobDefinition) else code, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        called: C = self.code(*args, **kwargs)
        return called
