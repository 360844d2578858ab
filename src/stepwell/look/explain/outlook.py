"""What a step waits for now, and what it will wait for each time that is removed.

One rule for all of it: a step that ended or lost its worker is asked again as the step that it will be then, by the
same sources. So whatever can hold up a Pending step is also found for one that has to be retried first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from stepwell.look.explain.children import children_to_wait_for
from stepwell.look.explain.ended import concluded_ancestor, is_to_be_retried, returns_dormant
from stepwell.look.explain.facts import Facts
from stepwell.look.explain.found import Found, Goal, Source, later
from stepwell.look.explain.running import silence
from stepwell.model.reasons import DORMANT, RECOVERED, REVIVED
from stepwell.model.states import CONCLUDED, State
from stepwell.store.engine.explaining import StepFacts


def outlook(facts: Facts, sources: Sequence[Source], step: StepFacts, goal: Goal) -> Iterator[Found]:
    """Everything that keeps a step from its goal."""
    for number, situation in enumerate(_situations(facts, step, goal)):
        for source in sources:
            for found in source(facts, situation):
                yield found if number == 0 else later(found)
    if goal in (Goal.ENDED, Goal.CONCLUDED):
        yield from children_to_wait_for(facts, step, goal)


def _situations(facts: Facts, step: StepFacts, goal: Goal) -> Iterator[StepFacts]:
    """A step as it is, and as it will be each time what holds it up is removed."""
    yield step
    if goal is Goal.LEASE_RELEASED or step.state in CONCLUDED:
        return
    if step.state.is_terminal and goal is not Goal.ENDED:
        if step.lease_worker is not None:
            step = replace(step, lease_worker=None, lease_deadline=None)
            yield step
        yield from _revived(facts, step)
    elif _returns_to_pending(facts, step):
        yield _pending_again(step, RECOVERED)


def _returns_to_pending(facts: Facts, step: StepFacts) -> bool:
    """Whether the reaper returns it to Pending: its worker is gone."""
    if step.state is State.DISPATCHED:
        return not facts.lanes_of(step)
    is_run = step.state is State.RUNNING and not step.waits_for_children and step.lease_worker is not None
    return is_run and silence(facts, step) is not None


def _revived(facts: Facts, step: StepFacts) -> Iterator[StepFacts]:
    if (
        concluded_ancestor(facts, step)
        or step.reason == DORMANT
        or (step.own_code_done_at is not None and step.state is not State.NOT_RUNNABLE)
    ):
        return  # it stays as it is, or it waits for its children at once
    if returns_dormant(facts, step):
        yield replace(step, state=State.NOT_RUNNABLE, reason=DORMANT)
        return
    due = step.dispatch_after
    keeps_plan = not is_to_be_retried(facts, step) and step.lease_token == 0 and due is not None and due > facts.now
    above = facts.steps.get(step.parent_step_id or 0)
    yield replace(
        _pending_again(step, REVIVED),
        # A parent that has ended is revived before, or with it.
        parent_ready=step.parent_ready or (above is not None and above.state.is_terminal),
        dispatch_after=due if keeps_plan else None,
        retries=0,
        retries_left=True,
        unsatisfiable=False,
    )


def _pending_again(step: StepFacts, reason: str) -> StepFacts:
    return replace(
        step, state=State.PENDING, reason=reason, status="unchecked", key_blocked=False, lease_worker=None,
        lease_deadline=None, error_message=None, last_error=None,
    )  # fmt: skip
