"""What a Pending step waits for: the conditions of `step_readiness`, and the steps behind each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepwell.look.explain.facts import Facts, Some
from stepwell.look.explain.found import Before, Found, Goal, behind, cause
from stepwell.look.explain.text import exact, not_completed_text
from stepwell.model.reasons import CHECK_AGAIN, DORMANT, NOT_COMPLETED, PREDECESSOR_FAILED, RESCUED, RETRY, THROTTLED
from stepwell.model.states import CONCLUDED, TERMINAL, State
from stepwell.store.engine.explaining import StepFacts

REPAIR: Final = ("stepwell doctor --sweep",)
UNREPAIRED: Final = "the bookkeeping disagrees: the next sweep of a dispatcher repairs it, within five minutes"
_DELAYED: Final = {
    RETRY: "its retry is delayed",
    THROTTLED: "throttled",
    CHECK_AGAIN: "its double check is delayed",
    RESCUED: "its process died, and its next run is delayed",
}


def not_placed(facts: Facts, step: StepFacts) -> Iterator[Found]:
    if step.status == "new":
        yield cause("adoption", "inserted with plain SQL; the next tick places it")


def not_due(facts: Facts, step: StepFacts) -> Iterator[Found]:
    due = step.dispatch_after
    if step.state is State.PENDING and due is not None and due > facts.now:
        yield cause("dispatch_after", f"{_why_delayed(step)} until {exact(due)}", changes_at=due)


def _why_delayed(step: StepFacts) -> str:
    if step.reason == NOT_COMPLETED:
        return f"{not_completed_text(step)}, and its next run is delayed"
    return _DELAYED.get(step.reason or "", "delayed")


def parent(facts: Facts, step: StepFacts) -> Iterator[Found]:
    above = step.parent_step_id
    if step.state is not State.PENDING or step.parent_ready or above is None:
        return
    if above in facts.missing:
        if step.placed:
            yield cause("parent", f"its parent, step {above}, does not exist", advice=[f"stepwell skip {step.id}"])
        else:
            yield cause("parent", f"its parent, step {above}, does not exist: the next tick makes this step Failed")
        return
    row = facts.steps.get(above)
    if row is not None and row.state.is_terminal:
        message = f"its parent has ended, and the next tick will end this step, too: {facts.named(above)}"
    elif row is not None and row.state is State.RUNNING:
        message = f"its parent's own code is not done: {facts.named(above)}"
    else:
        message = f"its parent has not run yet: {facts.named(above)}"
    yield behind("parent", message, [above], goal=Goal.OWN_CODE_DONE)


def order(facts: Facts, step: StepFacts) -> Iterator[Found]:
    if step.state is not State.PENDING or step.order_met:
        return
    before = facts.before(step)
    if not before:
        message = f"every step before index {step.index} has concluded, but {UNREPAIRED}"
        yield cause("bookkeeping", message, advice=REPAIR)
        return
    message = f"index {step.index} comes after {facts.listed(before.ids, before.total)}"
    nodes = [Before(step.block_uuid or "", step.type, step.index or 1)]
    yield behind("index", message, before.ids, total=before.total, nodes=nodes)


def dormant_handlers(facts: Facts, step: StepFacts) -> Iterator[Found]:
    """Handlers of a lower index that were not needed: they neither run nor conclude by themselves."""
    if step.order_met or not (step.state is State.PENDING or step.reason == PREDECESSOR_FAILED):
        return
    for row in facts.dormant_before(step):
        message = f"it comes after a dormant exception handler, which runs only if a step fails: {facts.named(row.id)}"
        yield cause("dormant", message, advice=[f"stepwell skip {row.id}"] if row.skippable else ())


def dependencies(facts: Facts, step: StepFacts) -> Iterator[Found]:
    if step.state is not State.PENDING or step.dependencies_met:
        return
    ids = [step_id for step_id in facts.dependencies.get(step.id, []) if _is_awaited(facts, step, step_id)]
    if step.trigger_rule == "any_concluded" and not ids:
        return  # none of them can conclude any more: see `unsatisfiable`
    message = f"its trigger rule {step.trigger_rule} is not met by: {facts.listed(ids)}"
    goal = Goal.ENDED if step.trigger_rule == "all_ended" else Goal.CONCLUDED
    yield behind("dependencies", message, ids, goal=goal, any_of=step.trigger_rule == "any_concluded")


def _is_awaited(facts: Facts, step: StepFacts, step_id: int) -> bool:
    """Whether the trigger rule still waits for this dependency; those that have concluded are not among the facts."""
    row = facts.steps.get(step_id)
    if row is None:
        return not facts.is_complete
    met = CONCLUDED if step.trigger_rule == "all_concluded" else TERMINAL
    return row.state not in met or row.lease_worker is not None


def unsatisfiable(facts: Facts, step: StepFacts) -> Iterator[Found]:
    if step.state is State.PENDING and step.unsatisfiable:
        message = "a predecessor failed or cannot run: the next tick makes this step NotRunnable"
        failed = culprits(facts, step)
        yield behind("unsatisfiable", message, failed.ids, total=failed.total)


def culprits(facts: Facts, step: StepFacts) -> Some:
    """The predecessors and dependencies that ended without having concluded.

    Steps that failed themselves explain more than those that are NotRunnable for the same reason.
    """
    before = facts.failures_before(step)
    rows = [facts.steps[step_id] for step_id in facts.dependencies.get(step.id, []) if step_id in facts.steps]
    ended = [row.id for row in rows if row.state.is_terminal and row.state not in CONCLUDED]
    ids = [each for each in dict.fromkeys(before.ids + ended) if facts.steps[each].reason != DORMANT]
    failed = [step_id for step_id in ids if facts.steps[step_id].state is not State.NOT_RUNNABLE]
    return Some(failed or ids, 0 if ended else before.total)


def retries(facts: Facts, step: StepFacts) -> Iterator[Found]:
    if step.state is State.PENDING and step.max_retries is not None and not step.retries_left:
        yield cause(
            "retries",
            f"its retries are exhausted ({step.retries} of {step.max_retries}): the next tick makes it Failed",
        )


def lost(facts: Facts, step: StepFacts) -> Iterator[Found]:
    """A step that is ready, but that no tick will find."""
    ready = step.parent_ready and step.order_met and step.dependencies_met and step.workflow_runs
    if step.state is not State.PENDING or step.status is not None or not ready or step.group in facts.groups_to_decide:
        return
    if step.placed:
        yield cause("bookkeeping", f"it is ready, but {UNREPAIRED}", advice=REPAIR)
