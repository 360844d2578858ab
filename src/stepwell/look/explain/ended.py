"""Steps that have ended without having concluded: what it takes to run them again.

The rules are those of `operate.actions`: advice is given only for what the engine accepts, once what is named before it
is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepwell.look.explain.facts import Facts, Some
from stepwell.look.explain.found import Found, Goal, behind, cause, later
from stepwell.look.explain.running import silence
from stepwell.look.explain.text import state_text
from stepwell.look.explain.waiting import culprits
from stepwell.model.reasons import (
    CHILDREN_FAILED,
    DORMANT,
    PARENT_CANCELLED,
    PARENT_FAILED,
    PARENT_NOT_RUNNABLE,
    PREDECESSOR_FAILED,
    REFUSED,
)
from stepwell.model.states import CONCLUDED, FAILED, RETRIABLE, TROUBLE, UNFINISHED, State
from stepwell.store.engine.explaining import StepFacts

_WITH_ITS_PARENT: Final = (PARENT_FAILED, PARENT_CANCELLED, PARENT_NOT_RUNNABLE)


def lease(facts: Facts, step: StepFacts) -> Iterator[Found]:
    """Ended by hand or by a cascade while its code ran: until its process has ended, everything behind it waits."""
    if not step.state.is_terminal or step.lease_worker is None:
        return
    message = f"it is {step.state}, but its process still holds the lease (worker {step.lease_worker})"
    trouble = silence(facts, step)
    if trouble is None:
        yield cause("lease", f"{message}: the worker ends it")
    else:
        yield cause("lease", f"{message}: {trouble[0]}; the reaper releases the lease", changes_at=trouble[1])


def not_runnable(facts: Facts, step: StepFacts) -> Iterator[Found]:
    if step.state is not State.NOT_RUNNABLE:
        return
    if step.reason == DORMANT:
        yield cause("dormant", "dormant exception handler: it runs only if a step of its block fails")
        return
    text = f"cannot run ({step.reason})"
    if above := concluded_ancestor(facts, step):
        yield _lost(facts, text, step, above)
        return
    ancestor = _ancestor_to_retry(facts, step)
    if step.reason == PARENT_NOT_RUNNABLE:
        found = Some([] if ancestor is None else [ancestor.id], 0)
        goal = Goal.OWN_CODE_DONE
    else:
        found, goal = culprits(facts, step), Goal.CONCLUDED
    if not found:
        yield from _unblocked(facts, step, text)
        return
    text = f"{text} because of {facts.listed(*found)}"
    if ancestor is None or ancestor.id in found.ids:
        yield behind("not_runnable", f"{text}: it is revived with that", found.ids, total=found.total, goal=goal)
    else:
        # What failed is retried after that: the engine revives nothing below a step that has ended.
        yield _below(facts, text, ancestor)
        yield later(behind("not_runnable", f"it is revived with {facts.listed(*found)}", found.ids, total=found.total))


def _unblocked(facts: Facts, step: StepFacts, text: str) -> Iterator[Found]:
    """What failed before it was retried or has concluded, while nothing below an ancestor could be revived."""
    if facts.dormant_before(step):
        return
    parent = facts.steps.get(step.parent_step_id or 0)
    if parent is not None and parent.state.is_terminal:
        message = f"{text}, and nothing before it is in the way now: it is revived with its parent, "
        yield behind("not_runnable", message + facts.named(parent.id), [parent.id], goal=Goal.OWN_CODE_DONE)
    else:
        message = f"{text}, and what it could have been revived with has concluded"
        yield cause("not_runnable", message, advice=_skip(step))


def failed(facts: Facts, step: StepFacts) -> Iterator[Found]:
    """Failed, Stopped or Cancelled: because of its children, with its parent, or by itself."""
    if step.state not in RETRIABLE or step.lease_worker is not None:
        return
    text = state_text(step)
    ancestor = _ancestor_to_retry(facts, step)
    if above := concluded_ancestor(facts, step):
        yield _lost(facts, text, step, above)
    elif ancestor is None:
        yield from _retry(facts, step, text)
    else:
        yield _below(facts, text, ancestor)
        if is_to_be_retried(facts, step):
            yield from map(later, _retry(facts, step, f"{text}; it is not revived with its ancestor"))


def _retry(facts: Facts, step: StepFacts, text: str) -> Iterator[Found]:
    """What it takes to retry a step by itself."""
    blocking = _unconcluded_children(facts, step)
    if step.reason == CHILDREN_FAILED and blocking and not any(_is_unblocked(facts, row) for row in blocking):
        yield behind("ended", text, [row.id for row in blocking])
        return
    leased = facts.leases_below.get(step.id)
    if leased:
        message = f"{text}; it can be retried when the processes below it have ended: {facts.listed(leased)}"
        yield behind("ended", message, [each for each in leased if each in facts.steps], goal=Goal.LEASE_RELEASED)
    retry = cause("ended", text, advice=[f"stepwell {verb} {step.id}" for verb in _verbs(facts, step)])
    yield later(retry) if leased else retry


def _verbs(facts: Facts, step: StepFacts) -> tuple[str, ...]:
    """What makes the steps behind it run: a step that was refused fails again, and skipping a parent leaves what ended
    below it as it is."""
    if step.reason == REFUSED:
        return ("skip",)
    return ("retry",) if facts.children(step) or not step.skippable else ("retry", "skip")


def _skip(step: StepFacts) -> list[str]:
    """The command that skips a step, unless its workflow does not allow it."""
    return [f"stepwell skip {step.id}"] if step.skippable else []


def _below(facts: Facts, text: str, ancestor: StepFacts) -> Found:
    message = f"{text}; its ancestor has to be revived first: {facts.named(ancestor.id)}"
    return behind("ended", message, [ancestor.id], goal=Goal.OWN_CODE_DONE)


def _lost(facts: Facts, text: str, step: StepFacts, ancestor: StepFacts) -> Found:
    message = f"{text}; it cannot be revived because its ancestor has concluded: {facts.named(ancestor.id)}"
    return cause("ended", message, advice=_skip(step))


def _ancestor_to_retry(facts: Facts, step: StepFacts) -> StepFacts | None:
    """The nearest ancestor that ended for a reason of its own: nothing below it can be retried before it is."""
    climbed: list[int] = []
    row, found = step, None
    while (above := facts.steps.get(row.parent_step_id or 0)) is not None and above.id not in climbed:
        if above.state in UNFINISHED:
            break
        if not _failed_by_children(above):
            found = above.id
            break
        if above.id in facts.ancestors_to_retry:
            found = facts.ancestors_to_retry[above.id]
            break
        climbed.append(above.id)
        row = above
    facts.ancestors_to_retry.update(dict.fromkeys([step.id, *climbed], found))
    return None if found is None else facts.steps[found]


def concluded_ancestor(facts: Facts, step: StepFacts) -> StepFacts | None:
    """An ancestor that concluded, with only ended ones between: nothing below it is ever revived.

    A dormant handler between says more: what is below it was not needed.
    """
    climbed: dict[int, None] = {step.id: None}
    row, found = step, None
    while (above := _ancestor_to_retry(facts, row)) is not None and above.id not in climbed and above.reason != DORMANT:
        if above.state in CONCLUDED or above.id in facts.concluded_ancestors:
            found = above.id if above.state in CONCLUDED else facts.concluded_ancestors[above.id]
            break
        climbed[above.id] = None
        row = above
    facts.concluded_ancestors.update(dict.fromkeys(climbed, found))
    return None if found is None else facts.steps[found]


def _failed_by_children(step: StepFacts) -> bool:
    return step.state is State.FAILED and step.reason == CHILDREN_FAILED


def is_to_be_retried(facts: Facts, step: StepFacts) -> bool:
    """Whether it takes an action of its own to revive a step; otherwise it is revived with another one."""
    return step.state in RETRIABLE and not _returns_with_its_parent(facts, step)


def returns_dormant(facts: Facts, step: StepFacts) -> bool:
    """Whether a step is a handler that is revived with another step, and so waits for a failure again.

    If its block still has one, the next tick promotes it.
    """
    if step.type != "resolve-exception" or is_to_be_retried(facts, step):
        return False
    return step.reason in _WITH_ITS_PARENT or not facts.has_failures(step)


def _returns_with_its_parent(facts: Facts, step: StepFacts) -> bool:
    """Whether the retry of an ancestor revives this step, too."""
    ancestor = _ancestor_to_retry(facts, step)
    row = step
    while ancestor is not None and row is not ancestor:
        above = facts.steps[row.parent_step_id or 0]
        is_failure_below = above.own_code_done_at is not None and row.type == "default" and row.state in FAILED
        if not (row.reason in _WITH_ITS_PARENT or is_failure_below):
            return False
        row = above
    return ancestor is not None


def _unconcluded_children(facts: Facts, step: StepFacts) -> list[StepFacts]:
    """The default children that keep a parent from completing."""
    ids = [member.step_id for member in facts.children(step) if member.type == "default"]
    rows = [facts.steps[step_id] for step_id in ids if step_id in facts.steps]
    return [row for row in rows if row.state in TROUBLE]


def _is_unblocked(facts: Facts, step: StepFacts) -> bool:
    """Whether a retry of its parent revives a step because nothing before it is in the way any more."""
    return step.reason == PREDECESSOR_FAILED and not culprits(facts, step) and not facts.dormant_before(step)
