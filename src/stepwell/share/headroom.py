"""How many more steps the limits allow during one claim.

They are counted at the claim, and claims are serialized while any limit exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from stepwell.store import Transaction
from stepwell.store.engine import limits as verbs

Kind: TypeAlias = Literal["total", "queue", "action"]


@dataclass(frozen=True, slots=True)
class SharedSlots:
    """Slots that all workers share because of a limit, how many of them each action has, and what a strategy keeps."""

    kind: Kind
    name: str
    slots: int
    running: Mapping[str, int]
    memory: str | None


@dataclass(slots=True)
class Headroom:
    """How much of each limit is left during one claim."""

    total: int | None
    queues: dict[str, int]
    actions: dict[str, int]
    aliases: Mapping[str, str] = field(default_factory=dict)  # former names count as the action that they are now
    running: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by queue and action, in all workers
    memories: Mapping[tuple[str, str], str | None] = field(default_factory=dict)  # of strategies, by kind and name

    @property
    def is_limited(self) -> bool:
        return self.total is not None or bool(self.queues) or bool(self.actions)

    def take(self, queue: str, action: str) -> bool:
        """Count one more step against the limits; False if one of them is reached."""
        action = self.aliases.get(action, action)
        if self.total == 0 or self.queues.get(queue) == 0 or self.actions.get(action) == 0:
            return False
        if self.total is not None:
            self.total -= 1
        if queue in self.queues:
            self.queues[queue] -= 1
        if action in self.actions:
            self.actions[action] -= 1
        return True

    def left(self, queues: Counter[str]) -> int:
        """At most how many of these steps, counted by queue, may start."""
        left = sum(min(count, self.queues.get(queue, count)) for queue, count in queues.items())
        return left if self.total is None else min(left, self.total)

    def left_of(self, action: str, waiting: int) -> int:
        """At most how many of the waiting steps of this action may start."""
        return min(waiting, self.actions.get(self.aliases.get(action, action), waiting))

    def shared(self, queues: Collection[str]) -> SharedSlots | None:
        """The slots of the one limit that covers all these queues; None if there is no such limit."""
        kind: Kind = "total"
        name = ""
        if len(queues) == 1 and (queue := next(iter(queues))) in self.queues:
            kind, name = "queue", queue
            left: int | None = self.queues[queue]
            lanes = {lane: count for lane, count in self.running.items() if lane[0] == queue}
        else:
            left, lanes = self.total, dict(self.running)
        if left is None:
            return None
        running: Counter[str] = Counter()
        for (_, action), count in lanes.items():
            running[action] += count
        return SharedSlots(kind, name, left + running.total(), running, self.memories.get((kind, name)))

    def full_queues(self) -> list[str]:
        return [queue for queue, room in self.queues.items() if room == 0]

    def full_actions(self) -> list[str]:
        full = [action for action, room in self.actions.items() if room == 0]
        return full + [alias for alias, action in self.aliases.items() if action in full]


def headroom_for_claim(tx: Transaction) -> Headroom:
    """How many more steps may start. Takes a lock: no other claim runs until this transaction ends."""
    limits = verbs.lock_limits(tx)
    aliases = {row.name: row.alias_of for row in verbs.aliases(tx)}
    queues: Counter[str] = Counter()
    actions: Counter[str] = Counter()
    lanes: dict[tuple[str, str], int] = {}
    for count in verbs.running_by_lane(tx):  # after taking the lock, so that earlier claims are visible
        lanes[count.queue, count.action] = count.running
        queues[count.queue] += count.running
        actions[aliases.get(count.action, count.action)] += count.running
    counts: Mapping[str, Counter[str]] = {"queue": queues, "action": actions}
    memories = {(row.kind, row.name): row.shares for row in limits}
    headroom = Headroom(None, {}, {}, aliases, lanes, memories)
    for row in limits:
        if row.kind == "total":
            headroom.total = max(0, row.maximum - queues.total())
        else:
            left = max(0, row.maximum - counts[row.kind][row.name])
            (headroom.queues if row.kind == "queue" else headroom.actions)[row.name] = left
    return headroom
