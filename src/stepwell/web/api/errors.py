"""The errors of Stepwell as responses. A message says what happened and what can be done, so it is the detail."""

from __future__ import annotations

from stepwell.model.errors import (
    ActionRefused,
    AppClosed,
    DatabaseUnavailable,
    IllegalTransition,
    KeyConflict,
    SchemaError,
    StepwellError,
    WorkflowConflict,
)
from stepwell.model.redaction import redacted
from stepwell.web.problems import HttpProblem

_REFUSED = (ActionRefused, IllegalTransition, KeyConflict, WorkflowConflict)
_UNAVAILABLE = (AppClosed, DatabaseUnavailable, SchemaError)


def problem_of(error: StepwellError) -> HttpProblem:
    """404 for what does not exist, 409 for what is refused now, 422 for what is wrong, 503 for an outage."""
    detail = redacted(str(error))
    if isinstance(error, _UNAVAILABLE):
        return HttpProblem(503, detail, headers={"Retry-After": "2"})
    if isinstance(error, LookupError):
        return HttpProblem(404, detail)
    return HttpProblem(409 if isinstance(error, _REFUSED) else 422, detail)
