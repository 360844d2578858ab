"""Executions: a row and its step, or its workflow, in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from msgspec import structs

from stepwell.define.drafts import NewStep
from stepwell.enqueue.create import Creator
from stepwell.model.features import SCHEDULE
from stepwell.model.ids import Uuid7Generator
from stepwell.schedule.definition import Definition, seed_of
from stepwell.schedule.errors import JobCreationError
from stepwell.schedule.targets import Targets
from stepwell.store import Transaction
from stepwell.store.engine import slots
from stepwell.store.engine.schedules import CronRow
from stepwell.workflow.live.start import Start, Starter, record_template
from stepwell.workflow.template import Template


@dataclass(frozen=True, slots=True)
class Wanted:
    """An execution to create. `scheduled_time` identifies it within its cron."""

    cron: CronRow
    definition: Definition
    scheduled_time: datetime
    slot: datetime | None
    work: NewStep | Prepared
    kind: Literal["slot", "manual", "backfill"] = "slot"
    start_by: datetime | None = None
    requested_by: str | None = None
    reason: str | None = None

    @property
    def key(self) -> tuple[int, datetime]:
        return self.cron.id, self.scheduled_time


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workflow that is ready to be started."""

    template: Template
    declared: Template
    start: Start
    replace: bool


def key_of(cron_id: int) -> str:
    """The concurrency key of all executions of a cron that must not overlap."""
    return f"schedule:{cron_id}"


class Executions:
    """Creates executions for one app, which may have none of the code: then the recorded declarations count."""

    def __init__(self, targets: Targets, creator: Creator, starter: Starter, uuids: Uuid7Generator) -> None:
        self._targets = targets
        self._creator = creator
        self._starter = starter
        self._uuids = uuids

    def can_start(self, cron: CronRow, definition: Definition) -> bool:
        """Whether this process has what it takes: a workflow needs the code that declares it."""
        return definition.target == "job" or self._targets.workflow(definition.handler) is not None

    def work_of(
        self, cron: CronRow, definition: Definition, slot: datetime | None, now: datetime
    ) -> NewStep | Prepared:
        """What an execution runs, checked; raises if it cannot be created."""
        if definition.target == "workflow":
            return self._workflow(cron, definition)
        settings: dict[str, Any] = {
            "label": cron.name,
            "max_retries": definition.max_retry - 1,
            "timeout": float(definition.timeout_seconds),
        }
        if not definition.allow_overlap:
            settings |= {"concurrency_key": key_of(cron.id), "concurrency_limit": 1}
        if slot is not None and (delay := delay_of(cron, definition, slot)):
            due = slot + delay
            settings |= {"dispatch_after": due, "delay": None} if due > now else {}
        try:
            draft = self._targets.jobs.draft(definition.handler, definition.params, settings)
        except Exception as error:  # also one that the job's own code raised, such as its `concurrency_key`
            raise JobCreationError(f"{type(error).__name__}: {error}") from error
        return structs.replace(draft, belongs_to=SCHEDULE, key=None)  # with a key, every slot would get the first step

    def _workflow(self, cron: CronRow, definition: Definition) -> Prepared:
        workflow = self._targets.workflow(definition.handler)
        if workflow is None:
            raise JobCreationError(
                f"this program does not declare the workflow {definition.handler!r}: use the app that does (--app); "
                "nothing was created"
            )
        try:
            template, start = workflow.prepared(
                definition.params, {"initiator": f"schedule {cron.name}", "source_system": "stepwell"}
            )
        except Exception as error:
            raise JobCreationError(f"{type(error).__name__}: {error}") from error
        return Prepared(template, workflow.check(), replace(start, belongs_to=SCHEDULE), workflow.replace)

    def create(self, tx: Transaction, wanted: Sequence[Wanted], now: datetime) -> dict[tuple[int, datetime], int]:
        """Create those that do not exist yet; returns the ids of these, by cron and scheduled time."""
        rows = [
            (
                each.cron.id, each.scheduled_time, each.kind, each.slot, each.cron.revision, each.requested_by,
                each.reason, each.start_by,
            )
            for each in wanted
        ]  # fmt: skip
        made = slots.insert_executions(tx, rows=slots.rows_of(tx, rows), now=now)
        created = {(row.job_id, row.scheduled_time): row.id for row in made}
        new = [(created[each.key], each) for each in wanted if each.key in created]
        jobs = [(id, each.work) for id, each in new if isinstance(each.work, NewStep)]
        links: list[tuple[int, int | None, str | None]] = []
        if jobs:
            refs = self._creator.create_in(tx, [draft for _, draft in jobs], now)
            links += [(id, ref.id, None) for (id, _), ref in zip(jobs, refs, strict=True)]
        for id, each in new:
            if isinstance(each.work, Prepared):
                links.append((id, None, self._start(tx, each.work, now)))
        if links:
            slots.link_executions(tx, rows=slots.rows_of(tx, links))
        return created

    def _start(self, tx: Transaction, work: Prepared, now: datetime) -> str:
        workflow_id = self._uuids.next()
        record_template(tx, work.declared, now, replace=work.replace)
        self._starter.write(tx, workflow_id, work.template, work.start)
        return workflow_id


def delay_of(cron: CronRow, definition: Definition, slot: datetime) -> timedelta:
    """The jitter of a slot: the same for every scheduler, and spread evenly over slots and schedules."""
    if not definition.jitter:
        return timedelta()
    digest = hashlib.sha256(f"{seed_of(cron)} {slot.isoformat()}".encode()).digest()
    return timedelta(seconds=round(definition.jitter * int.from_bytes(digest[:6], "big") / 2**48, 3))
