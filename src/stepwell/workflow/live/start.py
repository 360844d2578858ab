"""Starting a workflow: its template becomes rows, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from graphlib import TopologicalSorter
from typing import Any, Final, Literal

import msgspec

from stepwell.define.drafts import NewStep, Planned, ResolvedStep
from stepwell.define.registry import Registry
from stepwell.enqueue.create import Creator
from stepwell.model import codec
from stepwell.model.actors import By, actor_of
from stepwell.model.errors import DatabaseBusy, StepwellError, WorkflowConflict
from stepwell.model.ids import Uuid7Generator
from stepwell.model.reasons import BYPASSED
from stepwell.model.states import State
from stepwell.model.workflow_states import WorkflowState
from stepwell.store import Conflict, Database, Transaction
from stepwell.store.audit import record_with_parameters
from stepwell.store.engine import placement, templates, workflows
from stepwell.workflow.template import StepTemplate, Template

GATE_ACTION: Final = "stepwell.gate"  # no worker has a job of this name


@dataclass(frozen=True, slots=True)
class CopiedElement:
    """An element of a map that a rerun copies."""

    arguments: Any
    planned: Planned


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A checked request: everything that a new workflow needs beside its template."""

    context: str  # JSON
    who: str | None = None  # a person who starts it by hand
    initiator: str | None = None
    source_system: str | None = None
    reason: str | None = None
    tags: Sequence[str] = ()
    bypass_steps: Collection[str] = ()
    identity: str | None = None
    rerun_of: str | None = None
    belongs_to: Literal["schedule"] | None = None  # the feature that follows its changes
    content_hash: str | None = None  # that of the workflow which is run again
    # Steps that a rerun copies instead of running them, by name.
    copies: Mapping[str, Planned] = field(default_factory=dict)
    elements: Mapping[str, Sequence[CopiedElement]] = field(default_factory=dict)  # of copied maps


class Starter:
    """Writes new workflows."""

    def __init__(self, database: Database, creator: Creator, jobs: Registry, uuids: Uuid7Generator) -> None:
        self._database = database
        self._creator = creator
        self._jobs = jobs
        self._uuids = uuids
        self._recorded: dict[tuple[str, str, str], str] = {}  # the content hashes that the database is known to have

    def start(
        self,
        template: Template,
        request: Start,
        declared: Template | None = None,
        *,
        connection: Any = None,
        replace: bool = False,
    ) -> str:
        """Create a workflow, in the caller's transaction if a connection is given; returns its id.

        `declared` is the template before the overrides of an environment: the content of its version is recorded.
        """
        workflow_id = self._uuids.next()  # outside of the transaction: a repetition creates the same workflow
        declared = declared or template
        if connection is None:
            self._record(declared, replace)
            self._database.transact(lambda tx: self.write(tx, workflow_id, template, request))
            return workflow_id
        try:
            with self._database.within(connection) as tx:
                record_template(tx, declared, self._database.now(), replace=replace)
                self.write(tx, workflow_id, template, request)
        except Conflict as conflict:
            raise DatabaseBusy(
                f"your transaction conflicts with another ({conflict}): roll it back and retry it"
            ) from conflict
        return workflow_id

    def write(self, tx: Transaction, workflow_id: str, template: Template, request: Start) -> None:
        """The rows of a new workflow."""
        now = self._database.now()
        _refuse_duplicate(tx, template, request)
        drafts = self._drafts(workflow_id, template, request)
        idle = all(draft.planned is not None and draft.planned.state.is_terminal for draft in drafts)
        written = workflows.insert_workflow(
            tx,
            id=workflow_id,
            namespace=template.namespace,
            name=template.name,
            version=template.version,
            content_hash=request.content_hash or template.content_hash(),
            state=WorkflowState.COMPLETE if idle else WorkflowState.PENDING,
            actor=request.initiator,
            context=request.context,
            initiator=request.initiator,
            source_system=request.source_system,
            request_reason=request.reason,
            tags=codec.encode(list(request.tags)),
            bypass_steps=codec.encode(sorted(request.bypass_steps)),
            identity=request.identity,
            rerun_of=request.rerun_of,
            belongs_to=request.belongs_to,
            now=now,
        )
        if not written:
            _refuse_duplicate(tx, template, request)
        if drafts:
            self._creator.create_in(tx, drafts, now)
        if request.who is not None:
            by = By(actor_of(request.who), request.reason, now)
            what = {"name": f"{template.namespace}.{template.name}", "version": template.version}
            record_with_parameters(tx, "start_workflow", by, what, workflow_id=workflow_id)

    def _drafts(self, workflow_id: str, template: Template, request: Start) -> list[NewStep]:
        made: dict[str, NewStep] = {}
        for step in in_order(template):
            planned = request.copies.get(step.name) or planned_of(step, bypassed=step.name in request.bypass_steps)
            made[step.name] = ResolvedStep(
                action=step.action or GATE_ACTION,
                arguments=step.arguments,
                label=step.name,
                depends_on=[made[name] for name in step.upstream],
                trigger_rule=step.trigger,
                workflow=workflow_id,
                block=workflow_id,
                planned=planned,
                **self._settings(step),
            )
        elements = [
            ResolvedStep(
                action=made[name].action,
                arguments=element.arguments,
                parent=made[name],
                index=1,
                label=f"{name}[{element.planned.element}]",
                planned=element.planned,
            )
            for name, copied in request.elements.items()
            for element in copied
        ]
        return [*made.values(), *elements]

    def _settings(self, step: StepTemplate) -> dict[str, Any]:
        """The settings of the step, or else those of its job."""
        definition = self._jobs.get(step.action)
        job = {} if definition is None else definition.settings
        taken: dict[str, Any] = {
            name: job[name] for name in ("queue", "priority", "timeout", "cooldown") if name in job
        }
        if step.kind == "job" and definition is not None:
            taken |= definition.key_settings(step.arguments)
        own = {"queue": step.queue, "priority": step.priority, "timeout": step.timeout, "cooldown": step.cooldown}
        taken |= {name: value for name, value in own.items() if value}
        return {**taken, "max_retries": step.max_retries}

    def _record(self, template: Template, replace: bool) -> None:
        """Record the content of this version; refused if it was registered with another one."""
        key, content_hash = (template.namespace, template.name, template.version), template.content_hash()
        if self._recorded.get(key) != content_hash:
            self._database.transact(lambda tx: record_template(tx, template, self._database.now(), replace=replace))
            self._database.after_commit(lambda: self._recorded.update({key: content_hash}))


def record_template(tx: Transaction, template: Template, now: datetime, *, replace: bool = False) -> None:
    """Record the content of a version. The same version with another content is refused, unless `replace` is set."""
    which = {"namespace": template.namespace, "name": template.name, "version": template.version}
    content_hash, definition = template.content_hash(), msgspec.json.encode(template).decode()
    if templates.record_template(tx, **which, content_hash=content_hash, definition=definition, now=now):
        return
    if templates.recorded_template(tx, **which) == content_hash:
        return
    if not replace:
        raise StepwellError(
            f"workflow {template} was registered with another content; nothing was written. "
            "Live workflows of it keep their rows: give the changed template a new version"
        )
    templates.replace_template(tx, **which, content_hash=content_hash, definition=definition, now=now)


def _refuse_duplicate(tx: Transaction, template: Template, request: Start) -> None:
    """Two simultaneous requests with one identity wait for each other here."""
    if request.identity is None:
        return
    placement.lock_name(tx, name=f"workflow {request.identity}")
    existing = workflows.workflow_with_identity(tx, identity=request.identity)
    if existing is not None:
        raise WorkflowConflict(f"workflow {existing} is the same request ({template}); nothing was written", existing)


def planned_of(step: StepTemplate, *, bypassed: bool = False) -> Planned:
    """What the row of a step keeps of its template."""
    plan = msgspec.json.encode(step).decode()
    if bypassed:
        return Planned(template=step.name, kind=step.kind, plan=plan, state=State.SKIPPED, reason=BYPASSED)
    return Planned(template=step.name, kind=step.kind, plan=plan, undecided=_undecided(step))


def _undecided(step: StepTemplate) -> Any:
    """Whether a tick must decide before a worker may claim it."""
    if step.conditions or step.delay or step.kind == "gate":
        return "always"
    takes = any(each.source.step is not None and not each.optional for each in step.inputs)
    maps = step.each is not None and step.each.source.step is not None
    return "if_skipped" if step.trigger == "all_concluded" and (takes or maps) else None


def in_order(template: Template) -> list[StepTemplate]:
    """The steps, each after those that it depends on."""
    by_name = {step.name: step for step in template}
    return [by_name[name] for name in TopologicalSorter({step.name: step.upstream for step in template}).static_order()]
