"""Steps that have ended without having concluded: what it takes to run them again.

The rules are those of `operate.actions`: advice is given only for what the engine accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stepwell.look.explain.facts import ENDED_BADLY, Facts, Some
from stepwell.look.explain.found import Found, behind, cause
from stepwell.look.explain.running import silence
from stepwell.look.explain.text import state_text
from stepwell.look.explain.waiting import culprits
from stepwell.model.reasons import (
    CHILDREN_FAILED,
    DORMANT,
    PARENT_CANCELLED,
    PARENT_FAILED,
    PARENT_NOT_RUNNABLE,
    REFUSED,
)
from stepwell.model.states import CONCLUDED, FAILED, UNFINISHED, State
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
    if step.reason == PARENT_NOT_RUNNABLE:
        parent = facts.steps.get(step.parent_step_id or 0)
        found = Some([] if parent is None or parent.state is not State.NOT_RUNNABLE else [parent.id], 0)
    else:
        found = culprits(facts, step)
    text = f"cannot run ({step.reason})"
    if not found:
        message = f"{text}, and what it could have been revived with has concluded"
        yield cause("not_runnable", message, advice=_skip(step))
        return
    text = f"{text} because of {facts.listed(*found)}"
    ancestor = _ancestor_to_retry(facts, step)
    if ancestor is not None and ancestor.id not in found.ids:
        # What failed is retried after that: the engine revives nothing below a step that has ended.
        yield _below(facts, text, ancestor)
    else:
        yield behind("not_runnable", f"{text}: it is revived with that", found.ids, total=found.total)


def failed(facts: Facts, step: StepFacts) -> Iterator[Found]:
    """Failed, Stopped or Cancelled: because of its children, with its parent, or by itself."""
    if step.state not in ENDED_BADLY or step.lease_worker is not None:
        return
    text = state_text(step)
    ancestor = _ancestor_to_retry(facts, step)
    if ancestor is not None:
        yield _below(facts, text, ancestor, advice=_skip(step))
        return
    blocking = [row.id for row in _unconcluded_children(facts, step)]
    if step.reason == CHILDREN_FAILED and blocking:
        yield behind("ended", text, blocking)
    elif leased := facts.leases_below.get(step.id):
        message = f"{text}; it can be retried when the processes below it have ended: {facts.listed(leased)}"
        yield behind("ended", message, leased, nodes=[each for each in leased if each in facts.steps])
    elif blocking and step.own_code_done_at is not None and not _revives_children(facts, step):
        message = f"{text}; a retry would fail at once, unless these are skipped first: {facts.listed(blocking)}"
        yield cause("ended", message, advice=_skip(facts.steps[blocking[0]]))
    else:
        yield cause("ended", text, advice=[f"stepwell {verb} {step.id}" for verb in _verbs(facts, step)])


def _verbs(facts: Facts, step: StepFacts) -> tuple[str, ...]:
    """What makes the steps behind it run: a step that was refused fails again, and skipping a parent leaves what ended
    below it as it is."""
    if step.reason == REFUSED:
        return ("skip",)
    return ("retry",) if facts.children(step) or not step.skippable else ("retry", "skip")


def _skip(step: StepFacts) -> list[str]:
    """The command that skips a step, unless its workflow does not allow it."""
    return [f"stepwell skip {step.id}"] if step.skippable else []


def _below(facts: Facts, text: str, ancestor: StepFacts, advice: Sequence[str] = ()) -> Found:
    named = facts.named(ancestor.id)
    if ancestor.state in CONCLUDED:
        return cause(
            "ended", f"{text}; it cannot be revived because its ancestor has concluded: {named}", advice=advice
        )
    return behind("ended", f"{text}; its ancestor has to be revived first: {named}", [ancestor.id])


def _ancestor_to_retry(facts: Facts, step: StepFacts) -> StepFacts | None:
    """The nearest ancestor that ended for a reason of its own: nothing below it can be retried before it is."""
    row, seen = step, {step.id}
    while (above := facts.steps.get(row.parent_step_id or 0)) is not None and above.id not in seen:
        if above.state in UNFINISHED:
            return None
        if above.state is not State.FAILED or above.reason != CHILDREN_FAILED:
            return above
        seen.add(above.id)
        row = above
    return None


def _unconcluded_children(facts: Facts, step: StepFacts) -> list[StepFacts]:
    """The default children that keep a parent from completing."""
    ids = [member.step_id for member in facts.children(step) if member.type == "default"]
    rows = [facts.steps[step_id] for step_id in ids if step_id in facts.steps]
    return [row for row in rows if row.state in ENDED_BADLY or row.state is State.NOT_RUNNABLE]


def _revives_children(facts: Facts, step: StepFacts) -> bool:
    """Whether a retry of a parent whose own code is done also revives one of its children."""
    children = _unconcluded_children(facts, step)
    return any(row.state in FAILED or row.reason in _WITH_ITS_PARENT for row in children)
