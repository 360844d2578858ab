"""How many steps may run at once: in total, per queue, per action, and per concurrency key.

The first three are counted at the claim, and claims are serialized while any such limit exists. Concurrency keys apply
earlier: of the steps that share one, no more than its limit are admitted to the agenda; when one of them releases its
key, the next is admitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeAlias

from stepwell.model.actors import by_hand
from stepwell.model.errors import StepwellError
from stepwell.model.suggest import hint, warn_of_unknown_queue
from stepwell.store import Database, Transaction
from stepwell.store.audit import record_with_parameters
from stepwell.store.engine import creation, keys
from stepwell.store.engine import limits as verbs

Kind: TypeAlias = Literal["total", "queue", "action"]

_KINDS: Final = ("total", "queue", "action")
_MOST: Final = 2**31 - 1
KEYS_AT_ONCE: Final = 500
_OF_CODE: Final = "max_running of "  # prefix of a setting's name, repeated in `code_limits` (store/sql/limits.sql)


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


def unblock_keys(tx: Transaction, now: datetime) -> int:
    """Admit steps of each marked key up to its limit; returns how many were admitted.

    Only steps that a live worker serves: a step that cannot run now does not block the others with its key.
    """
    return sum(keys.decide_key(tx, key, now) for key in sorted(keys.marked_keys(tx, limit=KEYS_AT_ONCE)))


def recheck_keys_of_lanes(
    database: Database, queues: Collection[str], actions: Collection[str], worker: str, now: datetime
) -> None:
    """Mark the keys in these lanes to be decided again, after a worker was registered or removed.

    In a transaction of its own, after that change is committed: a key decided earlier would not see the change.
    """

    database.transact(
        lambda tx: keys.mark_keys_of_lanes(tx, queues=sorted(queues), actions=sorted(actions), worker=worker, now=now)
    )


def recheck_keys_of_dead_workers(database: Database, now: datetime) -> None:
    """Mark the keys of dead workers' steps to be decided again."""
    if left := database.read(lambda tx: keys.keys_without_workers(tx, now=now)):
        database.transact(lambda tx: [keys.mark_key(tx, key=key) for key in left])


class Limits:
    """The limits stored in the database; they apply to all of its workers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set(
        self,
        kind: Kind,
        name: str = "",
        maximum: int | None = None,
        *,
        who: str | None = None,
        why: str | None = None,
    ) -> None:
        """Set a limit, or remove it with `maximum=None`. Steps that are running are not affected.

        With `who`, a person sets it by hand: a change is recorded as an operation, with `why`.
        """
        if kind not in _KINDS or (kind == "total") != (name == ""):
            meant = "" if kind in _KINDS else f"; {hint(kind, _KINDS, 'kinds')}"
            raise StepwellError(
                f"invalid limit {kind!r} {name!r}: pass 'total', or 'queue' or 'action' with a name{meant}"
            )
        _check(kind, name, maximum)
        if kind == "queue" and maximum is not None:
            known = self._database.read(creation.queue_names)
            warn_of_unknown_queue(name, known, "the limit is kept, and applies once the queue is declared")
        by = by_hand(who, why, self._database.now)

        def work(tx: Transaction) -> None:
            if _write(tx, kind, name, maximum) and by is not None:
                what = {"limit": kind, "name": name, "maximum": maximum}
                record_with_parameters(tx, "set_limit", by, what)

        self._database.transact(work)
        self._recheck_keys(kind, name)

    def apply_declared(self, wanted: Mapping[str, int | None]) -> None:
        """Apply the limits that the jobs of an app declare (`max_running`), by action; None: no limit declared.

        A limit follows the code as long as it has the value that the code declared last: a new declaration changes or
        removes it. A limit that an operator has changed or removed stays as the operator left it. The limit of an
        action that is not listed here stays too: workers of older code, or of another program, may still run it.
        """
        for action, maximum in wanted.items():
            _check("action", action, maximum)

        def look(tx: Transaction) -> dict[str, int | None]:
            """The actions whose declared limit has changed, with the one declared before."""
            last = {row.name: int(row.value) for row in verbs.code_limits(tx)}
            return {action: last.get(_OF_CODE + action) for action, most in wanted.items()
                    if last.get(_OF_CODE + action) != most}  # fmt: skip

        def work(tx: Transaction) -> list[str]:
            in_force = {row.name: row.maximum for row in verbs.limits(tx) if row.kind == "action"}
            changed = []
            for action, before in look(tx).items():
                maximum, name = wanted[action], _OF_CODE + action
                if in_force.get(action) == before:
                    _write(tx, "action", action, maximum)
                    changed.append(action)
                if maximum is None:
                    verbs.delete_code_limit(tx, name=name)
                else:
                    verbs.record_code_limit(tx, name=name, maximum=str(maximum), now=self._database.now())
            return changed

        if self._database.read(look):
            for action in self._database.transact(work):
                self._recheck_keys("action", action)

    def _recheck_keys(self, kind: Kind, name: str) -> None:
        """A limit of 0 closes a lane, as if no worker served it: decide its keys again."""
        if kind != "total":
            self._database.transact(lambda tx: keys.mark_keys_under_limit(tx, kind=kind, name=name))

    def all(self) -> dict[tuple[str, str], int]:
        """Every limit by its kind and name."""
        return {(row.kind, row.name): row.maximum for row in self._database.read(verbs.limits)}


def _check(kind: Kind, name: str, maximum: int | None) -> None:
    if maximum is not None and (type(maximum) is not int or not 0 <= maximum <= _MOST):
        raise StepwellError(f"limit {kind} {name}: {maximum!r} is not a whole number of at least 0")


def _write(tx: Transaction, kind: Kind, name: str, maximum: int | None) -> bool:
    """Whether that changed anything."""
    if maximum is None:
        return verbs.delete_limit(tx, kind=kind, name=name) > 0
    return verbs.set_limit(tx, kind=kind, name=name, maximum=maximum) > 0
