"""What a schedule starts: a job by its action, a workflow by `namespace.name`."""

from __future__ import annotations

from typing import Any

from stepwell.define.definition import JobDefinition
from stepwell.define.registry import Registry
from stepwell.model.errors import StepwellError, WorkflowNotFound
from stepwell.schedule.definition import Target
from stepwell.store import Transaction
from stepwell.store.engine import schedules
from stepwell.workflow.template import DEFAULT_NAMESPACE
from stepwell.workflow.workflow import Workflow
from stepwell.workflow.workflows import Workflows


def split(handler: str) -> tuple[str, str]:
    """Namespace and name of a workflow.

    >>> split("shop.fulfil"), split("fulfil")
    (('shop', 'fulfil'), ('default', 'fulfil'))
    """
    namespace, _, name = handler.rpartition(".")
    return namespace or DEFAULT_NAMESPACE, name


def target_of(handler: Any) -> tuple[Target, str]:
    """What was passed as a handler, and its name: a job, a workflow, or the name of a job."""
    if isinstance(handler, Workflow):
        namespace, name, _ = handler.key
        return "workflow", name if namespace == DEFAULT_NAMESPACE else f"{namespace}.{name}"
    if isinstance(handler, JobDefinition):
        return "job", handler.action
    if isinstance(handler, str):
        return "job", handler
    raise StepwellError(f"{handler!r} cannot be scheduled: pass a job, a workflow, or the name of a job")


class Targets:
    """The jobs and workflows of one app."""

    def __init__(self, jobs: Registry, workflows: Workflows) -> None:
        self.jobs = jobs
        self._workflows = workflows

    def workflow(self, handler: str) -> Workflow[Any] | None:
        """The newest version of a workflow, if this app declares it."""
        namespace, name = split(handler)
        try:
            return self._workflows.get(name, namespace=namespace)
        except WorkflowNotFound:
            return None

    def is_recorded(self, tx: Transaction, handler: str) -> bool:
        """Whether any program has started this workflow on this database."""
        namespace, name = split(handler)
        return schedules.known_workflow(tx, namespace=namespace, name=name) is not None
