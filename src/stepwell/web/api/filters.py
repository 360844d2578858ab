"""The filters of a bulk action in a body of JSON, checked as those of a list are."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from stepwell.model.states import State
from stepwell.model.step import StepType
from stepwell.model.workflow_states import WorkflowState
from stepwell.web.api.endpoint import Call
from stepwell.web.api.inputs import Id, Name, Uuid, check_moments
from stepwell.web.api.steps import Status, refuse_secrets
from stepwell.web.problems import HttpProblem

Names = Name | list[Name]
Moment = Annotated[datetime, Meta(tz=True)]


class StepFilters(Struct, kw_only=True):
    """Several values of a list are alternatives."""

    id: Id | list[Id] | UnsetType = UNSET
    state: State | list[State] | UnsetType = UNSET
    action: Names | UnsetType = UNSET
    queue: Names | UnsetType = UNSET
    group: Names | UnsetType = UNSET
    type: StepType | UnsetType = UNSET
    workflow: Uuid | UnsetType = UNSET
    block: Uuid | UnsetType = UNSET
    parent: Id | UnsetType = UNSET
    cause: Id | UnsetType = UNSET
    host: Names | UnsetType = UNSET
    reason: Names | UnsetType = UNSET
    fingerprint: Names | UnsetType = UNSET
    status: Status | list[Status] | UnsetType = UNSET
    throttled: bool | UnsetType = UNSET
    ended_after: Moment | UnsetType = UNSET
    ended_before: Moment | UnsetType = UNSET
    relatable: Annotated[str, Meta(pattern=r"^[^:]+:[\s\S]+$")] | tuple[Name, Name] | UnsetType = UNSET
    relatable_type: Name | UnsetType = UNSET
    relatable_id: Name | UnsetType = UNSET
    args: dict[str, str | int | float | bool | None] | UnsetType = UNSET


class WorkflowFilters(Struct, kw_only=True):
    id: Uuid | list[Uuid] | UnsetType = UNSET
    state: WorkflowState | list[WorkflowState] | UnsetType = UNSET
    namespace: Names | UnsetType = UNSET
    name: Names | UnsetType = UNSET
    version: Names | UnsetType = UNSET
    initiator: Names | UnsetType = UNSET
    source_system: Names | UnsetType = UNSET
    paused: bool | UnsetType = UNSET


def filters_of(call: Call, kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """Unknown names are left in: what acts says which there are."""
    types = StepFilters if call.app.operations.kinds[kind].subject == "step" else WorkflowFilters
    set_ones = {name: value for name, value in given.items() if value is not None}
    try:
        checked = msgspec.convert(set_ones, types)
    except msgspec.ValidationError as error:
        raise HttpProblem(422, f"filters: {error}") from error
    check_moments(checked)
    values = {name: value for name, value in msgspec.structs.asdict(checked).items() if value is not UNSET}
    found = {**set_ones, **values}
    if isinstance(args := found.get("args"), dict):
        refuse_secrets(call, args)
    if isinstance(relatable := found.get("relatable"), str):
        found["relatable"] = tuple(relatable.split(":", 1))
    return found
