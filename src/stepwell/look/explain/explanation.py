"""The answer to "why is this step not running?", from the chain behind it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from stepwell.look.explain.chain import Chain
from stepwell.look.explain.facts import SHOWN, gather
from stepwell.look.explain.found import Found, Source
from stepwell.look.explain.result import Explanation, Obstacle, RootCause, StepExplanation
from stepwell.look.explain.sources import SOURCES
from stepwell.look.explain.text import state_text
from stepwell.model.states import State
from stepwell.model.step import Step
from stepwell.store import Database, Transaction
from stepwell.store.engine import sweep
from stepwell.store.engine.explaining import StepFacts

# Steps behind a step, and root causes, that an explanation contains; it counts the rest.
LISTED: Final = 100
# Root causes that a summary names.
IN_SUMMARY: Final = 3
# Conditions that say nothing about the step itself: with no other obstacle it is eligible.
_NOT_OF_THE_STEP: Final = ("database", "breaker", "room", "adoption", "key", "limit", "bookkeeping")


def explain(database: Database, step: Step, sources: Sequence[Source] = SOURCES) -> Explanation:
    """Check a step, and all steps behind it, against the conditions that the dispatcher uses."""

    writer = database.suspended_writer()

    def look(tx: Transaction) -> Explanation:
        sweep.use_one_snapshot(tx)
        return _explanation(Chain(gather(tx, [step.id], database.now(), writer), [step.id], sources), step.id)

    return database.read(look)


def _explanation(chain: Chain, start: int) -> Explanation:
    facts = chain.facts
    asked = explain_step(facts.steps[start], chain.obstacles[start])
    said = {*asked.obstacles, *asked.afterwards}
    others = [step_id for step_id in chain.obstacles if step_id != start]
    roots = root_causes(chain, besides=start)
    return Explanation(
        step_id=asked.step_id,
        name=asked.name,
        state=asked.state,
        summary=asked.summary + _in_summary(chain, start, roots),
        eligible=asked.eligible,
        obstacles=asked.obstacles,
        afterwards=asked.afterwards,
        behind=[explain_step(facts.steps[each], chain.obstacles[each], said) for each in others[:LISTED]],
        behind_more=max(0, len(others) - LISTED) + len(chain.unexamined),
        roots=roots[:LISTED],
        roots_more=max(0, len(roots) - LISTED),
        is_complete=facts.is_complete and not chain.unexamined,
        expected_at=chain.expected_at(start),
    )


def explain_step(step: StepFacts, found: list[Found], said: Collection[Obstacle] = ()) -> StepExplanation:
    """What is said already is not repeated for what comes later."""
    obstacles = [each.obstacle for each in found if not each.is_later]
    afterwards = [each.obstacle for each in found if each.is_later and each.obstacle not in said]
    text = "; ".join(obstacle.message for obstacle in obstacles)
    of_step = [obstacle for obstacle in obstacles if obstacle.condition not in _NOT_OF_THE_STEP]
    if not obstacles:
        summary = state_text(step)
    elif step.state is not State.PENDING:
        summary = text
    else:
        summary = f"waiting: {text}" if of_step else f"ready, but not dispatched: {text}"
    if afterwards:
        summary += f"; after that: {'; '.join(obstacle.message for obstacle in afterwards)}"
    eligible = step.state is State.PENDING and not of_step
    return StepExplanation(step.id, step.name, step.state, summary, eligible, obstacles, afterwards)


def root_causes(chain: Chain, besides: int | None = None) -> list[RootCause]:
    """One root cause may hold up thousands of steps: the same obstacle, removed by the same action."""
    groups: dict[Obstacle, dict[int, None]] = {}
    now: set[Obstacle] = set()
    for step_id, found in chain.root_causes(besides):
        groups.setdefault(found.obstacle, {})[step_id] = None
        if not found.is_later:
            now.add(found.obstacle)
    return [
        RootCause(
            each.condition,
            each.message,
            tuple(ids)[:SHOWN],
            max(0, len(ids) - SHOWN),
            each.changes_at,
            each.advice,
            is_later=each not in now,
        )
        for each, ids in groups.items()
    ]


def _in_summary(chain: Chain, start: int, roots: list[RootCause]) -> str:
    """The root causes behind other steps; those of the step itself are in its own summary."""
    behind = [root for root in roots if start not in root.steps]
    if not behind:
        return ""
    texts = [f"{chain.facts.listed(root.steps)}: {root.message}{_advised(root)}" for root in behind[:IN_SUMMARY]]
    more = f", and {len(behind) - IN_SUMMARY:,} more" if len(behind) > IN_SUMMARY else ""
    return f". Root cause{'' if len(behind) == 1 else 's'}: {'; '.join(texts)}{more}"


def _advised(root: RootCause) -> str:
    return f" ({' or '.join(root.advice)})" if root.advice else ""
