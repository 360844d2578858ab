"""The columns of a running step, as they were when it was claimed."""

from __future__ import annotations

from stepwell.model.claimed import ClaimedStep
from stepwell.model.features import PROCESS
from stepwell.model.step import StepRef
from stepwell.share.ranges import HashRange, Partition, UniqueId


class StepFacts(StepRef):
    """Read-only, as they were when the step was claimed."""

    __slots__ = ("_facts",)
    __setattr__ = object.__setattr__  # a reference is frozen; a run is not

    def __init__(self, facts: ClaimedStep) -> None:
        super().__init__(facts.id, facts.uuid)
        self._facts = facts

    @property
    def action(self) -> str:
        return self._facts.action

    @property
    def label(self) -> str | None:
        return self._facts.label

    @property
    def kind(self) -> str:
        """`job`, or `map` for a step that creates one child for each element of a list."""
        return self._facts.kind

    @property
    def template(self) -> str | None:
        """The name of its step in the template of a declared workflow."""
        return self._facts.template

    @property
    def element(self) -> int | None:
        """The position of its element in the list of a map."""
        return self._facts.element

    @property
    def workflow_id(self) -> str:
        return self._facts.workflow_id

    @property
    def parent_step_id(self) -> int | None:
        return self._facts.parent_step_id

    @property
    def index(self) -> int:
        return self._facts.index

    @property
    def queue(self) -> str:
        return self._facts.queue

    @property
    def group(self) -> str:
        return self._facts.group

    @property
    def priority(self) -> str:
        return self._facts.priority

    @property
    def relatable(self) -> tuple[str, str] | None:
        kind, of = self._facts.relatable_type, self._facts.relatable_id
        return None if kind is None or of is None else (kind, of)

    @property
    def partition(self) -> Partition:
        """The part of its entities that a task of a main process has; everything for all other steps."""
        if self._facts.belongs_to != PROCESS or self._facts.relatable_id is None:
            return UniqueId().partitions()[0]
        number, _, resources = self._facts.relatable_id.partition("/")
        return HashRange(int(resources)).partitions()[int(number) - 1]

    @property
    def attempts(self) -> int:
        """How many times it was claimed, including this time."""
        return self._facts.attempts

    @property
    def retries(self) -> int:
        """How many retries are spent, out of `max_retries`."""
        return self._facts.retries

    @property
    def max_retries(self) -> int:
        return self._facts.max_retries

    @property
    def double_checks(self) -> int:
        return self._facts.double_checks

    @property
    def stage(self) -> str | None:
        """Where this attempt starts, if an earlier one has completed `compute`."""
        return self._facts.stage

    @property
    def timeout(self) -> float:
        return self._facts.timeout

    @property
    def cooldown(self) -> float:
        return self._facts.cooldown

    @property
    def has_children(self) -> bool:
        return bool(self._facts.has_children)

    @property
    def ref(self) -> StepRef:
        return StepRef(self.id, self.uuid)
