"""Running one job or workflow to its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from stepwell.define.definition import JobDefinition
from stepwell.enqueue.handle import Handle
from stepwell.testing.settling import manual_clock, settle
from stepwell.workflow.request import RequestOptions
from stepwell.workflow.run import Run
from stepwell.workflow.workflow import Workflow

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


@overload
def run(
    what: Workflow[C], context: C | Mapping[str, Any] | None = None, /, **request: Unpack[RequestOptions]
) -> Run: ...
@overload
def run(what: JobDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
def run(what: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Start a workflow, or enqueue a job with these arguments, and settle; returns the run or the handle.

    >>> from stepwell import Stepwell
    >>> from stepwell.testing import ManualClock
    >>> app = Stepwell("sqlite://", clock=ManualClock())
    >>> @app.job
    ... def double(number: int) -> int:
    ...     return 2 * number
    >>> run(double, 21).result()
    42
    """
    manual_clock(what.app)  # before anything is written
    started = what.start(*args, **kwargs) if isinstance(what, Workflow) else what.enqueue(*args, **kwargs)
    settle(what.app)
    return started
