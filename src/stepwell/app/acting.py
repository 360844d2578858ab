"""What operators do to steps: the methods of `Stepwell` that change them by hand, recorded with who and why."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from stepwell.app.looking import AnyStep, Looking
from stepwell.model.states import State
from stepwell.model.step import Retried, Step

if TYPE_CHECKING:
    from stepwell.operate.actions import Actions


class Acting(Looking):
    """A part of `Stepwell`."""

    @property
    @abstractmethod
    def actions(self) -> Actions: ...

    def retry(self, which: AnyStep, *, who: str, why: str | None = None) -> Retried:
        """Return a step to Pending, now, and the steps that ended because of it to Pending, as they were planned."""
        return self.actions.retry(self.step(which).id, who, why)

    def cancel(self, which: AnyStep, *, who: str, why: str | None = None) -> None:
        """Cancel a step and, in the next ticks, its descendants."""
        self.actions.cancel(self.step(which).id, who, why)

    def skip(self, which: AnyStep, *, who: str, why: str | None = None) -> None:
        """Conclude a step without running it."""
        self.actions.skip(self.step(which).id, who, why)

    def complete(self, which: AnyStep, *, who: str, why: str | None = None, response: Any = None) -> None:
        """Complete a step by hand, with a result."""
        self.actions.complete(self.step(which).id, who, why, response)

    def reset_attempts(self, which: AnyStep, *, who: str, why: str | None = None) -> None:
        """Reset the attempts of a Pending step, and the delay after the last one."""
        self.actions.reset_attempts(self.step(which).id, who, why)

    def transition_to(self, which: AnyStep, state: State, *, who: str, why: str | None = None) -> None:
        """Change the state of a step by hand, as the transition table allows an operator."""
        from stepwell.operate.transition import transition_by_hand

        transition_by_hand(self.actions, self.step(which), state, who, why)

    def pause_workflow(self, which: AnyStep, *, who: str, why: str | None = None) -> None:
        """Hold back the Pending steps of a step's workflow."""
        self.actions.pause_workflow(_workflow_of(self.step(which)), who, why)

    def resume_workflow(self, which: AnyStep, *, who: str, why: str | None = None) -> None:
        """Resume a paused workflow."""
        self.actions.resume_workflow(_workflow_of(self.step(which)), who, why)


def _workflow_of(step: Step) -> str:
    return step.workflow_id or step.uuid
