"""Running a workflow again from one of its steps: a new workflow that copies what had concluded."""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.define.drafts import Planned
from stepwell.model import codec
from stepwell.model.actors import By, actor_of, storable
from stepwell.model.errors import ActionRefused
from stepwell.model.ids import Uuid7Generator
from stepwell.model.reasons import COPIED
from stepwell.model.states import CONCLUDED
from stepwell.store import Database, Transaction
from stepwell.store.audit import record_workflow_action
from stepwell.store.engine import inputs, workflows
from stepwell.store.engine.inputs import PlannedRow
from stepwell.store.missing import missing_workflow
from stepwell.workflow.live.inputs import decode_plan
from stepwell.workflow.live.start import CopiedElement, Start, Starter
from stepwell.workflow.template import StepTemplate, Template


def rerun(
    database: Database, starter: Starter, uuids: Uuid7Generator, workflow_id: str, step: str, who: str, why: str | None
) -> str:
    """Start a copy in which `step`, everything downstream of it and everything unconcluded runs; returns its id.

    Graph and context are those of the first workflow, whatever is declared today.
    """
    actor, new_id = actor_of(who), uuids.next()

    def work(tx: Transaction) -> str:
        row = workflows.workflow(tx, id=workflow_id)
        if row is None:
            raise missing_workflow(tx, workflow_id)
        steps = inputs.planned_steps(tx, id=workflow_id)
        plans = {each.template: decode_plan(each.plan) for each in steps if each.element is None and each.plan}
        if step not in plans:
            raise ActionRefused(f"workflow {workflow_id} has no step {step!r}; its steps: {', '.join(plans)}")
        again = downstream_of(step, plans.values())
        copied = {
            each.template: each
            for each in steps
            if each.element is None and each.template not in again and each.state in CONCLUDED
        }
        request = Start(
            context=codec.encode(row.context),
            initiator=actor,
            source_system=row.source_system,
            reason=storable(why),
            tags=row.tags,
            bypass_steps=[name for name in row.bypass_steps if name != step],
            rerun_of=workflow_id,
            content_hash=row.content_hash,
            copies={name: _copy(each) for name, each in copied.items()},
            elements={
                name: [
                    CopiedElement(codec.decode(each.arguments), _copy(each))
                    for each in steps
                    if each.template == name and each.element is not None and each.state in CONCLUDED
                ]
                for name in copied
                if plans[name].kind == "map"
            },
        )
        template = Template(namespace=row.namespace, name=row.name, version=row.version, steps=tuple(plans.values()))
        starter.write(tx, new_id, template, request)
        record_workflow_action(tx, "rerun_workflow", By(actor, why, database.now()), workflow_id, row.state, {})
        return new_id

    return database.transact(work)


def _copy(row: PlannedRow) -> Planned:
    return Planned(
        template=row.template,
        kind=row.kind,  # type: ignore[arg-type]
        element=row.element,
        plan=row.plan,
        state=row.state,
        reason=COPIED,
        response=row.response,
    )


def downstream_of(step: str, plans: Iterable[StepTemplate]) -> set[str]:
    """The step, and every step that depends on it, at any distance."""
    dependents: dict[str, list[str]] = {}
    for plan in plans:
        for name in plan.upstream:
            dependents.setdefault(name, []).append(plan.name)
    found, new = {step}, [step]
    while new:
        new = [name for each in new for name in dependents.get(each, ()) if name not in found]
        found.update(new)
    return found
