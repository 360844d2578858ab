"""The results of other steps, as the code of a running step sees them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stepwell.define.registry import Registry
from stepwell.define.signature import Signature
from stepwell.model import codec
from stepwell.model.errors import StepwellError
from stepwell.model.states import CONCLUDED, FAILED, State
from stepwell.model.step import StepRef
from stepwell.store import Database
from stepwell.store.engine import results
from stepwell.store.engine.results import RelatedStep


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StepResult(StepRef):
    """A step as it was when its result was read."""

    action: str
    label: str | None
    index: int
    type: str
    state: State
    reason: str | None
    error: str | None  # the message of its first error
    _response: str | None
    _signature: Signature | None

    @property
    def name(self) -> str:
        """Its label, or else its action."""
        return self.label or self.action

    @property
    def is_concluded(self) -> bool:
        """Completed or Skipped."""
        return self.state in CONCLUDED

    @property
    def result(self) -> Any:
        """What it returned, typed by the signature of its job if the app has it; None if it has no result."""
        stored = codec.decode(self._response)
        if self._signature is None or self.state is not State.COMPLETED:
            return stored
        try:
            return self._signature.result(stored)
        except (ValueError, TypeError) as error:
            raise StepwellError(
                f"the result of step {self.id} ({self.name}) does not match the signature of its job ({error})"
            ) from error


class Results(tuple[StepResult, ...]):
    """Steps in the order of their indexes."""

    __slots__ = ()

    def named(self, name: str) -> StepResult:
        """The only one with this label or, if none has it, of this action."""
        found = [step for step in self if step.label == name] or [step for step in self if step.action == name]
        if len(found) == 1:
            return found[0]
        names = ", ".join(sorted({step.name for step in self})) or "none"
        raise StepwellError(f"{len(found) or 'no'} steps are named {name!r}; the steps are: {names}")

    @property
    def failed(self) -> Results:
        """Those that ended as Failed or Stopped."""
        return Results(step for step in self if step.state in FAILED)


def read_related(database: Database, step: int, of: int | None) -> list[RelatedStep]:
    """The steps before a step, or the children of `of`."""
    if of is None:
        return database.read(lambda tx: results.steps_before(tx, id=step))
    return database.read(lambda tx: results.steps_below(tx, id=of))


def as_results(related: Iterable[RelatedStep], jobs: Registry) -> Results:
    return Results(_as_result(step, jobs) for step in related)


def _as_result(step: RelatedStep, jobs: Registry) -> StepResult:
    job = jobs.get(step.action)
    return StepResult(
        step.id,
        step.uuid,
        action=step.action,
        label=step.label,
        index=step.index,
        type=step.type,
        state=step.state,
        reason=step.reason,
        error=step.error_message,
        _response=step.response,
        _signature=None if job is None else job.signature,
    )
