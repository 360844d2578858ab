"""The kinds of operations: what each would do to a step or workflow, does to it, and how it is undone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from stepwell.model import codec
from stepwell.model.actors import By
from stepwell.model.errors import ActionRefused
from stepwell.model.states import State
from stepwell.operate.actions import pause_workflow, resume_workflow
from stepwell.operate.revival import refuse_leased, refuse_unretriable
from stepwell.operate.step_actions import REVIVED, Also, StepActions
from stepwell.store import Transaction
from stepwell.store.engine import operations
from stepwell.store.engine.operations import StepToAssess

Parameters: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Undoing:
    """An item of the operation that is being undone."""

    target: Any  # the id of a step or workflow
    state: str | None  # before that operation
    operation: int


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of operation on steps or workflows; each function raises `ActionRefused` with the reason."""

    name: str
    subject: Literal["step", "workflow"]
    # What it would do: on a step as read, or on a workflow by its id.
    plan: Callable[[Transaction, Any, Parameters], Also]
    act: Callable[[Transaction, Any, By, Parameters], Also]  # by the id of the step or workflow
    undo: Callable[[Transaction, Undoing, By], Also]
    checks_version: bool = True  # leaves alone what has changed since the preview
    can_undo: bool = True  # what `undo` always refuses is not offered


class Kinds:
    """The kinds by their names; packages above add theirs."""

    def __init__(self, steps: StepActions) -> None:
        self._kinds: dict[str, Kind] = {}
        for kind in [*_kinds_of_steps(steps), *_PAUSES]:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        self._kinds[kind.name] = kind

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    def __getitem__(self, name: str) -> Kind:
        if name not in self._kinds:
            raise ActionRefused(f"unknown operation {name!r}; valid operations: {', '.join(sorted(self._kinds))}")
        return self._kinds[name]


def refuses(reason: str) -> Callable[[Transaction, Undoing, By], Also]:
    """The undo of what cannot be undone."""

    def refuse(tx: Transaction, item: Undoing, by: By) -> Also:
        raise ActionRefused(reason)

    return refuse


def _kinds_of_steps(steps: StepActions) -> list[Kind]:
    def plan_retry(tx: Transaction, step: StepToAssess, parameters: Parameters) -> Also:
        if step.alone:  # no need to look at others
            refuse_unretriable(step)
            refuse_leased([step])
            return {}
        others = [each.id for each in steps.plan_retry(tx, step) if each.id != step.id]
        return {REVIVED: others} if others else {}

    def undo_by_retry(tx: Transaction, item: Undoing, by: By) -> Also:
        return steps.retry(tx, item.target, by).also

    def undo_retry(tx: Transaction, item: Undoing, by: By) -> Also:
        if item.state == State.FAILED:
            return steps.fail(tx, item.target, by).also
        if item.state == State.CANCELLED:
            return steps.cancel(tx, item.target, by).also
        raise ActionRefused(f"it was {item.state}, and a step that waits cannot become that by hand: cancel it")

    def ending(name: str, state: State, done: str, act: Callable[..., Any]) -> Kind:
        return Kind(
            name,
            "step",
            lambda tx, step, parameters: steps.plan_end(tx, step, state, done),
            lambda tx, id, by, parameters: act(tx, id, by).also,
            undo_by_retry,
        )

    return [
        ending("cancel", State.CANCELLED, "cancelled", steps.cancel),
        ending("fail", State.FAILED, "failed", steps.fail),
        ending("stop", State.STOPPED, "stopped", steps.stop),
        Kind("retry", "step", plan_retry, lambda tx, id, by, _: steps.retry(tx, id, by).also, undo_retry),
        Kind(
            "skip",
            "step",
            lambda tx, step, parameters: steps.plan_skip(tx, step),
            lambda tx, id, by, parameters: steps.skip(tx, id, by).also,
            refuses("Skipped is final: steps behind it may have run because of it"),
            can_undo=False,
        ),
        Kind(
            "complete",
            "step",
            lambda tx, step, parameters: steps.plan_completion(tx, step, parameters.get("result")),
            lambda tx, id, by, parameters: (
                steps.complete(tx, id, by, codec.encode(parameters.get("result"), "result")).also
            ),
            refuses("Completed is final: steps behind it may have used its result"),
            can_undo=False,
        ),
        Kind(
            "reset_attempts",
            "step",
            lambda tx, step, parameters: steps.plan_reset(step),
            lambda tx, id, by, parameters: steps.reset_attempts(tx, id, by).also,
            refuses("the earlier counts are not kept"),
            can_undo=False,
        ),
    ]


def _pause(tx: Transaction, workflow: str, by: By) -> Also:
    if not pause_workflow(tx, workflow, by):
        raise _paused_already(workflow)
    return {}


def _resume(tx: Transaction, workflow: str) -> Also:
    resume_workflow(tx, workflow)
    return {}


def _plan_pause(tx: Transaction, workflow: str, parameters: Parameters) -> Also:
    if _is_paused(tx, workflow):
        raise _paused_already(workflow)
    return {}


def _paused_already(workflow: str) -> ActionRefused:
    return ActionRefused(f"workflow {workflow} is paused already; nothing changed")


def _is_paused(tx: Transaction, workflow: str) -> bool:
    return any(each.paused for each in operations.workflow_versions(tx, ids=[workflow]))


def _plan_resume(tx: Transaction, workflow: str, parameters: Parameters) -> Also:
    if not _is_paused(tx, workflow):
        raise ActionRefused(f"workflow {workflow} is not paused; nothing changed")
    return {}


# Whether a workflow is paused does not depend on how far it has come.
_PAUSES: Final = [
    Kind(
        "pause_workflow",
        "workflow",
        _plan_pause,
        lambda tx, workflow, by, parameters: _pause(tx, workflow, by),
        lambda tx, item, by: _resume(tx, item.target),
        checks_version=False,
    ),
    Kind(
        "resume_workflow",
        "workflow",
        _plan_resume,
        lambda tx, workflow, by, parameters: _resume(tx, workflow),
        lambda tx, item, by: _pause(tx, item.target, by),
        checks_version=False,
    ),
]
