"""How many steps may run at once: in all, of a queue, of an action, and with the same key.

The first three are counted at the claim, one claim at a time while there are any. A key is a gate before that: of the
steps that share one, no more than its limit are let on the agenda to be picked; the next passes when one has let go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from stepwell.model.errors import StepwellError
from stepwell.store import Database, Transaction
from stepwell.store.engine import keys
from stepwell.store.engine import limits as verbs

Kind: TypeAlias = Literal["total", "queue", "action"]

_KINDS: Final = ("total", "queue", "action")
_MOST: Final = 2**31 - 1
KEYS_AT_ONCE: Final = 500
_OF_CODE: Final = "max_running of "  # the name of a setting (`code_limits` in sql/common/limits.sql spells it out)


@dataclass(slots=True)
class Room:
    """What is left of the limits during one claim."""

    total: int | None
    queues: dict[str, int]
    actions: dict[str, int]

    def take(self, queue: str, action: str) -> bool:
        """Whether there is room for one more; then it is taken."""
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
        """How many of so many steps of each queue may begin, at most."""
        left = sum(min(count, self.queues.get(queue, count)) for queue, count in queues.items())
        return left if self.total is None else min(left, self.total)

    def full_queues(self) -> list[str]:
        return [queue for queue, room in self.queues.items() if room == 0]

    def full_actions(self) -> list[str]:
        return [action for action, room in self.actions.items() if room == 0]


def room_for_claim(tx: Transaction) -> Room:
    """What may still begin; nobody else claims before this transaction ends."""
    limits = verbs.lock_limits(tx)
    queues: Counter[str] = Counter()
    actions: Counter[str] = Counter()
    for count in verbs.running_by_lane(tx):  # after the lock: so it sees what others have claimed
        queues[count.queue] += count.running
        actions[count.action] += count.running
    counts: Mapping[str, Counter[str]] = {"queue": queues, "action": actions}
    room = Room(None, {}, {})
    for row in limits:
        if row.kind == "total":
            room.total = max(0, row.maximum - queues.total())
        else:
            left = max(0, row.maximum - counts[row.kind][row.name])
            (room.queues if row.kind == "queue" else room.actions)[row.name] = left
    return room


def unblock_keys(tx: Transaction, now: datetime) -> int:
    """Let as many steps of each marked key pass as there are places; returns how many did.

    Only those that somebody can run now: a step that no live worker serves does not take a place from the others.
    """
    return sum(keys.decide_key(tx, key, now) for key in sorted(keys.marked_keys(tx, limit=KEYS_AT_ONCE)))


def look_at_lanes(
    database: Database, queues: Collection[str], actions: Collection[str], worker: str, now: datetime
) -> None:
    """Have the keys in these lanes looked at again, after a worker has come or gone.

    Not in the transaction that says so: whoever looks at a key before that is over does not know of it yet.
    """

    database.transact(
        lambda tx: keys.mark_keys_of_lanes(tx, queues=sorted(queues), actions=sorted(actions), worker=worker, now=now)
    )


def look_at_keys_left_behind(database: Database, now: datetime) -> None:
    """Have the keys looked at again that went with dead workers."""
    if left := database.read(lambda tx: keys.keys_without_workers(tx, now=now)):
        database.transact(lambda tx: [keys.mark_key(tx, key=key) for key in left])


class Limits:
    """The limits on record: they hold for all workers of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set(self, kind: Kind, name: str = "", maximum: int | None = None) -> None:
        """Set one, or lift it with `maximum=None`; what runs already goes on."""
        if kind not in _KINDS or (kind == "total") != (name == ""):
            raise StepwellError(f"no limit {kind!r} of {name!r}: say 'total', or 'queue' or 'action' with a name")
        _check(kind, name, maximum)
        self._database.transact(lambda tx: _write(tx, kind, name, maximum))
        self._look_at_keys(kind, name)

    def follow_code(self, wanted: Mapping[str, int | None]) -> None:
        """What the jobs of an app say (`max_running`), by action; None: nothing, or nothing any more.

        A limit is the code's while it is what the code said last: then it changes and goes with the code. One that
        an operator has set to something else, or lifted, is the operator's, and stays. So does that of an action that
        is not named here: it may be gone, but workers of older code, or of another program, may still run it.
        """
        for action, maximum in wanted.items():
            _check("action", action, maximum)

        def look(tx: Transaction) -> dict[str, int | None]:
            """Which actions the code says something new of."""
            said = {row.name: int(row.value) for row in verbs.code_limits(tx)}
            return {action: said.get(_OF_CODE + action) for action, most in wanted.items()
                    if said.get(_OF_CODE + action) != most}  # fmt: skip

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
                self._look_at_keys("action", action)

    def _look_at_keys(self, kind: Kind, name: str) -> None:
        """A limit of 0 closes a lane, as if no worker served it."""
        if kind != "total":
            self._database.transact(lambda tx: keys.mark_keys_under_limit(tx, kind=kind, name=name))

    def all(self) -> dict[tuple[str, str], int]:
        """Every limit by its kind and name."""
        return {(row.kind, row.name): row.maximum for row in self._database.read(verbs.limits)}


def _check(kind: Kind, name: str, maximum: int | None) -> None:
    if maximum is not None and (type(maximum) is not int or not 0 <= maximum <= _MOST):
        raise StepwellError(f"the limit {kind} {name} is {maximum!r}, not a whole number of at least 0")


def _write(tx: Transaction, kind: Kind, name: str, maximum: int | None) -> None:
    if maximum is None:
        verbs.delete_limit(tx, kind=kind, name=name)
    else:
        verbs.set_limit(tx, kind=kind, name=name, maximum=maximum)
