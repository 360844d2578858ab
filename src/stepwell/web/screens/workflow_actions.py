"""What the forms of a workflow do."""

from __future__ import annotations

from stepwell.model.errors import StepwellError, WorkflowNotFound
from stepwell.web.screens.asked import Asked, Form


def act(asked: Asked, form: Form, who: str) -> str:
    """Pause, resume, retry, cancel or resolve; the last two need a reason or at least a second click."""
    workflow_id, what, why = asked.params["id"], asked.params["what"], form.get("why") or None
    run = asked.app.workflows.run(workflow_id)
    match what:
        case "pause":
            asked.app.actions.pause_workflow(_existing(asked, workflow_id), who, why)
        case "resume":
            asked.app.actions.resume_workflow(_existing(asked, workflow_id), who, why)
        case "retry":
            run.retry(who=who, why=why)
        case "cancel":
            run.cancel(who=who, why=why)
        case "resolve":
            run.resolve(who=who, why=why)
        case _:
            raise StepwellError(f"unknown action {what!r}; nothing changed")
    return asked.link(f"/workflows/{workflow_id}", view=form.get("view") or None)


def _existing(asked: Asked, workflow_id: str) -> str:
    if not asked.app.steps(workflow=workflow_id, limit=1):
        raise WorkflowNotFound(f"no workflow has the id {workflow_id}")
    return workflow_id
