"""All that is known about a step and the steps behind it, in a fixed number of statements."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple

from stepwell.model.reasons import DORMANT
from stepwell.model.states import CONCLUDED, FAILED, RETRIABLE
from stepwell.store import Transaction
from stepwell.store.engine import explaining, limits, settings, ticks
from stepwell.store.engine.explaining import LeaseHolder, Member, ServedLane, StepFacts, WorkflowPause
from stepwell.store.engine.limits import RunningCount
from stepwell.store.engine.settings import BreakerRow
from stepwell.store.lock_holder import LockHolder

# Steps that one explanation examines; the statements take well under a second for this many.
MOST: Final = 20_000
# Of the steps behind one step (the children of a parent, the steps of one index), this many are examined.
FAN: Final = 1_000
# Of the failures before an index, this many are followed: each of ten thousand steps may have thousands before it.
FAILURES: Final = 100
# Steps that are named in one message.
SHOWN: Final = 10


class Some(NamedTuple):
    """The first of some steps, and how many there are."""

    ids: list[int]
    total: int

    def __bool__(self) -> bool:
        return bool(self.ids)


@dataclass(slots=True)
class Facts:
    """Steps by id, and what their obstacles depend on. Sources read it; those with data of their own may use `tx`."""

    tx: Transaction
    now: datetime
    steps: dict[int, StepFacts]
    missing: set[int] = field(default_factory=set)  # referred to, but without a row
    is_complete: bool = True
    blocks: dict[tuple[str, str], list[Member]] = field(default_factory=dict)  # by block and type, in order
    dependencies: dict[int, list[int]] = field(default_factory=dict)
    key_holders: dict[str, list[int]] = field(default_factory=dict)
    leases_below: dict[int, list[int]] = field(default_factory=dict)
    workers: dict[str, LeaseHolder] = field(default_factory=dict)
    lanes: list[ServedLane] = field(default_factory=list)
    slots: dict[tuple[str, str], int] = field(default_factory=dict)  # by queue and group; '' is all groups
    dispatched: dict[tuple[str, str], int] = field(default_factory=dict)
    pauses: dict[str, WorkflowPause] = field(default_factory=dict)
    groups_to_decide: set[str] = field(default_factory=set)
    parents_to_decide: set[int] = field(default_factory=set)
    breaker: BreakerRow | None = None
    suspended_writer: LockHolder | None = None
    maxima: dict[tuple[str, str], int] = field(default_factory=dict)
    running: list[RunningCount] = field(default_factory=list)
    names: dict[int, StepFacts] = field(default_factory=dict)  # steps that are named, but not examined
    ancestors_to_retry: dict[int, int | None] = field(default_factory=dict)  # found out so far, and so is this:
    concluded_ancestors: dict[int, int | None] = field(default_factory=dict)
    _ended: dict[tuple[str, str], tuple[list[Member], list[Member]]] = field(default_factory=dict)

    def lanes_of(self, step: StepFacts) -> list[ServedLane]:
        """The lanes by which live workers serve a step: those of its group, and those of all groups."""
        return [lane for lane in self._lanes_anywhere(step) if lane.group in ("", step.group)]

    def is_served_elsewhere(self, step: StepFacts) -> bool:
        """Whether live workers serve its queue and action, in whatever group."""
        return bool(self._lanes_anywhere(step))

    def _lanes_anywhere(self, step: StepFacts) -> list[ServedLane]:
        return [lane for lane in self.lanes if (lane.queue, lane.action) == (step.queue, step.action)]

    def before(self, step: StepFacts, most: int = SHOWN) -> Some:
        """The steps of its block and type with a lower index that have not concluded."""
        return self._below(self.blocks.get((step.block_uuid or "", step.type), []), step, most)

    def failures_before(self, step: StepFacts) -> Some:
        """Those of them that failed or were cancelled; if there are none, those that cannot run either."""
        key = step.block_uuid or "", step.type
        if key not in self._ended:
            ended = [member for member in self.blocks.get(key, []) if member.ended and member.step_id in self.steps]
            failed = [member for member in ended if self.steps[member.step_id].state in RETRIABLE]
            self._ended[key] = failed, ended
        failed, ended = self._ended[key]
        return self._below(failed, step, FAILURES) or self._below(ended, step, FAILURES)

    def dormant_before(self, step: StepFacts) -> list[StepFacts]:
        """The dormant handlers of its block with a lower index; only handlers come after handlers."""
        if step.type == "default":
            return []
        rows = (self.steps.get(member_id) for member_id in self.before(step, FAILURES).ids)
        return [row for row in rows if row is not None and row.reason == DORMANT]

    def has_failures(self, step: StepFacts) -> bool:
        """Whether a step of its block failed, so that its handlers are needed."""
        members = self.blocks.get((step.block_uuid or "", "default"), [])
        rows = (self.steps.get(member.step_id) for member in members if member.ended)
        return any(row is None or row.state in FAILED for row in rows)

    def _below(self, members: list[Member], step: StepFacts, most: int) -> Some:
        end = bisect_left(members, step.index or 1, key=lambda member: member.index)
        ids = (member.step_id for member in islice(members, end))
        return Some(list(islice((each for each in ids if not self.has_concluded(each)), most)), end)

    def has_concluded(self, step_id: int) -> bool:
        """Whether a step has concluded, although its block entry says otherwise."""
        step = self.steps.get(step_id) or self.names.get(step_id)
        return step is not None and step.state in CONCLUDED and step.lease_worker is None

    def children(self, step: StepFacts) -> list[Member]:
        """Its children that have not concluded."""
        block = step.child_block_uuid or ""
        return self.blocks.get((block, "default"), []) + self.blocks.get((block, "resolve-exception"), [])

    def unfinished_children(self, step: StepFacts) -> list[int]:
        ids = [member.step_id for member in self.children(step) if not member.ended]
        return [step_id for step_id in ids if not self._has_ended(step_id)]

    def _has_ended(self, step_id: int) -> bool:
        """Whether a step has ended, although its block entry says otherwise."""
        step = self.steps.get(step_id)
        return step is not None and step.state.is_terminal and step.lease_worker is None

    def named(self, step_id: int) -> str:
        step = self.steps.get(step_id) or self.names.get(step_id)
        return f"step {step_id}" if step is None else f"step {step_id} ({step.name}, {step.state})"

    def listed(self, ids: Sequence[int], total: int = 0) -> str:
        """Some steps by name, and how many more there are."""
        text, more = ", ".join(map(self.named, ids[:SHOWN])), max(len(ids), total) - SHOWN
        return text if more <= 0 else f"{text}, ... {more:,} more"


def gather(tx: Transaction, asked: Sequence[int], now: datetime, suspended_writer: LockHolder | None) -> Facts:
    """Read everything about some steps and the steps behind them."""
    ticks.keep_to_indexes(tx)
    rows = explaining.steps_behind(tx, ids=asked, fan=FAN, most=2 * MOST)  # a step may be there twice
    ids = list(dict.fromkeys(row.id for row in rows))
    facts = Facts(tx, now, _steps(tx, ids), is_complete=len(rows) < 2 * MOST)
    facts.missing = set(ids) - facts.steps.keys()
    facts.suspended_writer = suspended_writer
    _read_relations(facts, {row.id for row in rows if row.whole})
    _read_room(facts)
    return facts


def _steps(tx: Transaction, ids: Sequence[int]) -> dict[int, StepFacts]:
    """In the order of the ids."""
    found = {step.id: step for step in explaining.facts_of_steps(tx, ids=ids)}
    return {step_id: found[step_id] for step_id in ids if step_id in found}


def _read_relations(facts: Facts, whole: set[int]) -> None:
    """The other steps that matter: in the same block, by dependency, by key, below (`whole`: its end is waited for)."""
    tx, steps = facts.tx, facts.steps.values()
    blocks = {step.block_uuid for step in steps if not step.order_met or step.unsatisfiable}
    blocks |= {step.child_block_uuid for step in steps if _is_about_children(step, whole)}
    members = explaining.unconcluded_in_blocks(tx, blocks=_known(blocks), most=MOST)
    facts.is_complete = facts.is_complete and len(members) < MOST
    for member in members:
        facts.blocks.setdefault((member.block_uuid, member.type), []).append(member)
    waiting = [step.id for step in steps if not step.dependencies_met or step.unsatisfiable]
    for edge in explaining.dependencies_of_steps(tx, ids=waiting, most=MOST):
        facts.dependencies.setdefault(edge.step_id, []).append(edge.depends_on_id)
    keys = _known(step.concurrency_key for step in steps if step.state not in CONCLUDED)
    for holder in explaining.holders_of_keys(tx, keys=keys, most=MOST):
        facts.key_holders.setdefault(holder.concurrency_key, []).append(holder.step_id)
    ended = [step.id for step in steps if step.state in RETRIABLE]
    for lease in explaining.leases_below(tx, ids=ended) if ended else ():
        facts.leases_below.setdefault(lease.above_id, []).append(lease.leased_id)
    first = {member.step_id for members in facts.blocks.values() for member in members[:SHOWN]}
    first |= {step_id for ids in (*facts.dependencies.values(), *facts.key_holders.values()) for step_id in ids[:SHOWN]}
    facts.names = _steps(tx, sorted(first - facts.steps.keys())[:MOST])


def _is_about_children(step: StepFacts, whole: set[int]) -> bool:
    return step.state not in CONCLUDED and (step.id in whole or step.waits_for_children or step.state in RETRIABLE)


def _read_room(facts: Facts) -> None:
    """Workers, limits, pauses: what is asked once for all steps."""
    tx, now, steps = facts.tx, facts.now, facts.steps.values()
    queues, actions = _known(step.queue for step in steps), _known(step.action for step in steps)
    facts.lanes = explaining.served_lanes(tx, queues=queues, actions=actions, now=now)
    facts.slots = {(row.queue, row.group): row.slots for row in explaining.slots_by_queue(tx, queues=queues, now=now)}
    groups = _known(step.group for step in steps)
    dispatched = explaining.dispatched_by_queue(tx, queues=queues, groups=groups)
    facts.dispatched = {(row.queue, row.group): row.dispatched for row in dispatched}
    workers = _known(step.lease_worker for step in steps)
    facts.workers = {worker.id: worker for worker in explaining.lease_holders(tx, workers=workers)}
    workflows = _known(step.workflow_id for step in steps)
    facts.pauses = {pause.id: pause for pause in explaining.paused_workflows(tx, workflows=workflows)}
    facts.groups_to_decide = set(explaining.groups_to_decide(tx, groups=groups, now=now))
    parents = [step.id for step in steps if step.waits_for_children and not facts.unfinished_children(step)]
    facts.parents_to_decide = set(explaining.parents_to_decide_soon(tx, ids=parents, now=now)) if parents else set()
    facts.breaker = settings.breaker_state(tx)
    facts.maxima = {(row.kind, row.name): row.maximum for row in limits.limits(tx)}
    facts.running = limits.running_by_lane(tx) if facts.maxima else []


def _known(values: Iterable[str | None]) -> list[str]:
    return sorted({value for value in values if value is not None})
