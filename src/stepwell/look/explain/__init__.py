"""Why is this step not running? Every unmet condition, the steps behind it, and so on down to the root causes."""

from stepwell.look.explain.explanation import explain
from stepwell.look.explain.found import Source
from stepwell.look.explain.result import Explanation, Obstacle, RootCause, StepExplanation, WorkflowExplanation
from stepwell.look.explain.sources import SOURCES
from stepwell.look.explain.workflow import explain_workflow

__all__ = [
    "SOURCES",
    "Explanation",
    "Obstacle",
    "RootCause",
    "Source",
    "StepExplanation",
    "WorkflowExplanation",
    "explain",
    "explain_workflow",
]
