"""What operators may do to a workflow and its steps."""

from __future__ import annotations

from stepwell.operate.step_actions import StepActions
from stepwell.workflow.by_hand.manual import refuse_bad_result, refuse_unskippable, skipped_by_input
from stepwell.workflow.live.gates import refuse_closed_gate


def add_checks(actions: StepActions) -> None:
    """What declared workflows forbid, and what they skip with a step, in the actions on single steps."""
    actions.before_skip.append(refuse_unskippable)
    actions.before_completion += [refuse_closed_gate, refuse_bad_result]
    actions.skipped_by_input.append(skipped_by_input)
