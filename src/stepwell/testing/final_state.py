"""What a database looks like once everything has settled, in a form that two runs can be compared by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepwell.model import codec
from stepwell.model.features import WORKFLOW
from stepwell.model.states import State
from stepwell.model.step import Step
from stepwell.testing.assertions import all_steps

if TYPE_CHECKING:
    from stepwell.app import Stepwell

Compare = Callable[[Step], Any]


def state_and_result(step: Step) -> Any:
    """What is compared unless the caller chooses: the state of a step and its result."""
    return (str(step.state), step.response)


@dataclass(frozen=True, slots=True)
class FinalState:
    """Steps by what they are (their place, action and arguments, not their ids) and how they ended."""

    steps: Counter[tuple[str, str]]
    workflows: Counter[tuple[str, str]]

    @classmethod
    def of(cls, app: Stepwell, compare: Compare = state_and_result) -> FinalState:
        steps = {step.id: step for step in all_steps(app)}
        places: dict[int, str] = {}
        for step in steps.values():  # parents are older than their children
            above = "" if step.parent_step_id is None else f"{places[step.parent_step_id]} > "
            places[step.id] = f"{above}{_described(step)}"
        runs = {
            step.workflow_id for step in steps.values() if step.belongs_to == WORKFLOW and step.workflow_id is not None
        }
        rows = [app.workflows.run(workflow_id).row() for workflow_id in sorted(runs)]
        return cls(
            Counter((places[step.id], repr(compare(step))) for step in steps.values()),
            Counter((f"workflow {row.namespace}.{row.name}", str(row.state)) for row in rows),
        )

    def differences(self, other: FinalState) -> Iterator[str]:
        """How another run ended differently."""
        for mine, others in ((self.steps, other.steps), (self.workflows, other.workflows)):
            for name in sorted({key[0] for key in (mine - others) | (others - mine)}):
                expected, found = _endings(mine, name), _endings(others, name)
                yield f"{name}: ended as {found} instead of {expected}"


def _endings(counted: Counter[tuple[str, str]], name: str) -> str:
    found = sorted(ending for key, ending in counted.elements() if key == name)
    return " and ".join(found) or "nothing (it does not exist)"


def _described(step: Step) -> str:
    place = f"[{step.index}]" if (step.index or 1) > 1 else ""
    return f"{step.name}{place} {codec.encode(step.arguments)}"


def violations(app: Stepwell) -> Iterator[str]:
    """Everything that must hold in any database at rest and does not."""
    yield from map(str, app.check_invariants())
    for step in all_steps(app):
        if step.state in (State.DISPATCHED, State.RUNNING) and step.own_code_done_at is None:
            yield f"step {step.id} ({step.name}) is still {step.state}"
        completions = sum(change.to_state is State.COMPLETED for change in app.history(step))
        if completions > 1:
            yield f"step {step.id} ({step.name}) was completed {completions} times"
