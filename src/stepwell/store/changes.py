"""Hooks for what follows a transition: called inside the transaction, and again after its commit.

Every verb that moves steps reports the rows that it changed, whatever caused the change: a run, a cascade, a tick, an
operator or the reaper. Features attach here instead of repeating what a transition does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from stepwell.model.states import State

if TYPE_CHECKING:
    from stepwell.model.claimed import ClaimedStep
    from stepwell.store.transaction import Transaction


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one step's state, as recorded in its history; `from_state` is None for its creation."""

    step_id: int
    workflow_id: str | None
    action: str
    from_state: State | None
    to_state: State
    reason: str | None = None
    actor: str | None = None
    at: datetime
    attempt: int
    error: str | None = None
    duration: float | None = None
    belongs_to: str | None = None  # the feature that follows the changes of this step


class WorkflowChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the state of a declared workflow; `from_state` is None for its start."""

    workflow_id: str
    namespace: str
    name: str
    version: str
    from_state: str | None
    to_state: str
    reason: str | None = None
    actor: str | None = None
    at: datetime
    execution: Any = None  # `store.engine.workflows.Execution`, if it settled
    belongs_to: str | None = None  # the feature that follows the changes of this workflow


InTransaction: TypeAlias = Callable[["Transaction", Sequence[Change]], None]
AfterCommit: TypeAlias = Callable[[Sequence[Change]], None]
OnClaim: TypeAlias = Callable[["Transaction", "list[ClaimedStep]"], "list[ClaimedStep]"]
InTick: TypeAlias = Callable[["Transaction", str, str, datetime], int]
# The steps (by id) or workflows (by UUID) of a feature that a transaction touched, with who changed each last.
Touched: TypeAlias = dict[int | str, str | None]
BeforeCommit: TypeAlias = Callable[["Transaction", Touched], None]
AfterWorkflowCommit: TypeAlias = Callable[[Sequence[WorkflowChange]], None]


class ChangeHooks:
    """The hooks on the changes of one database.

    The code of a feature is loaded when a transaction first meets one of its steps: `load_on_use`.
    """

    def __init__(self) -> None:
        self._in_transaction: list[InTransaction] = []
        self._after_commit: list[AfterCommit] = []
        self._is_active: list[Callable[[], bool]] = []
        self._on_claim: dict[str, OnClaim] = {}
        self._in_tick: dict[str, InTick] = {}
        self._features: dict[str, Callable[[], object]] = {}
        self._before_commit: dict[str, list[BeforeCommit]] = {}
        self._after_workflow_commit: list[AfterWorkflowCommit] = []
        self._follows_workflows: list[Callable[[], bool]] = []

    def load_on_use(self, feature: str, load: Callable[[], object]) -> None:
        """Call `load` before a hook of this feature is due; it registers them, and does nothing if called again."""
        self._features[feature] = load

    def load(self, feature: str) -> None:
        """Make sure that the hooks of a feature are registered."""
        if load := self._features.get(feature):
            load()

    def in_transaction(self, hook: InTransaction) -> None:
        """Call `hook` with all changes, in the transaction that makes them: what it writes commits with the change."""
        self._in_transaction.append(hook)

    def after_commit(self, hook: AfterCommit, is_active: Callable[[], bool] = lambda: True) -> None:
        """Call `hook` with the changes of every committed transaction, while `is_active` returns True."""
        self._after_commit.append(hook)
        self._is_active.append(is_active)

    def on_claim(self, feature: str, hook: OnClaim) -> None:
        """Call `hook` with the claimed steps that belong to a feature, in the transaction of the claim.

        It returns the steps, in the same order, as they will run: with what they take from other rows.
        """
        self._on_claim[feature] = hook

    def in_tick(self, feature: str, hook: InTick) -> None:
        """Call `hook(tx, group, actor, now)` in a tick that found undecided steps or due gates of a feature.

        It returns how many rows it changed.
        """
        self._in_tick[feature] = hook

    def before_commit(self, feature: str, hook: BeforeCommit) -> None:
        """Call `hook` at the end of every transaction that changed steps which belong to a feature.

        Other transactions pay nothing for it.
        """
        self._before_commit.setdefault(feature, []).append(hook)

    def after_workflow_commit(self, hook: AfterWorkflowCommit, is_active: Callable[[], bool] = lambda: True) -> None:
        """Call `hook` with the changes of workflows of every committed transaction, while `is_active` returns True."""
        self._after_workflow_commit.append(hook)
        self._follows_workflows.append(is_active)

    def follows_workflows(self) -> bool:
        """Whether any hook wants the changes of workflows."""
        return any(is_active() for is_active in self._follows_workflows)

    def has_transaction_hooks(self) -> bool:
        """Whether any hook runs in the transaction of a change, which then takes more than one statement."""
        return bool(self._in_transaction)

    def is_active(self) -> bool:
        """Whether any hook wants changes; hot paths collect none otherwise."""
        return bool(self._in_transaction) or any(is_active() for is_active in self._is_active)

    def changed(self, tx: Transaction, changes: Sequence[Change]) -> None:
        for hook in self._in_transaction:
            hook(tx, changes)

    def prepare(self, tx: Transaction, steps: list[ClaimedStep]) -> list[ClaimedStep]:
        for feature in {step.belongs_to for step in steps}:
            if feature is None:
                continue
            self.load(feature)
            if hook := self._on_claim.get(feature):
                places = [place for place, step in enumerate(steps) if step.belongs_to == feature]
                for place, step in zip(places, hook(tx, [steps[place] for place in places]), strict=True):
                    steps[place] = step
        return steps

    def decide(self, tx: Transaction, feature: str, group: str, actor: str, now: datetime) -> int:
        self.load(feature)
        hook = self._in_tick.get(feature)
        return 0 if hook is None else hook(tx, group, actor, now)

    def finalize(self, tx: Transaction, feature: str, touched: Touched) -> None:
        self.load(feature)
        for hook in self._before_commit.get(feature, ()):
            hook(tx, touched)

    def committed(self, changes: Sequence[Change], workflow_changes: Sequence[WorkflowChange] = ()) -> None:
        if changes:
            for hook in self._after_commit:
                hook(changes)
        if workflow_changes:
            for hook_of_workflows in self._after_workflow_commit:
                hook_of_workflows(workflow_changes)
