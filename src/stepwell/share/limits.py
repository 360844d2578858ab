"""The limits on how many steps may run at once: in total, per queue, per action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from stepwell.model.actors import by_hand
from stepwell.model.errors import StepwellError
from stepwell.model.suggest import hint, warn_of_unknown_action, warn_of_unknown_queue
from stepwell.share.headroom import Kind
from stepwell.store import Database, Transaction
from stepwell.store.audit import record_with_parameters
from stepwell.store.engine import creation, keys
from stepwell.store.engine import limits as verbs
from stepwell.store.engine.actions import all_actions

_KINDS: Final = get_args(Kind)
_MOST: Final = 2**31 - 1
_LONGEST_NAME: Final = 255  # of a queue or an action


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
        if maximum is not None:
            self._warn_of_unknown(kind, name)
        by = by_hand(who, why, self._database.now)

        def work(tx: Transaction) -> None:
            if _write(tx, kind, name, maximum) and by is not None:
                what = {"limit": kind, "name": name, "maximum": maximum}
                record_with_parameters(tx, "set_limit", by, what)

        self._database.transact(work)
        self._recheck_keys(kind, name)

    def _warn_of_unknown(self, kind: Kind, name: str) -> None:
        if kind == "queue":
            known = self._database.read(creation.queue_names)
            warn_of_unknown_queue(name, known, "the limit is kept, and applies once the queue is declared")
        elif kind == "action":
            warn_of_unknown_action(name, [row.name for row in self._database.read(all_actions)])

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
            last = {row.action: row.maximum for row in verbs.code_limits(tx)}
            return {action: last.get(action) for action, most in wanted.items() if last.get(action) != most}

        def work(tx: Transaction) -> list[str]:
            in_force = {row.name: row.maximum for row in verbs.limits(tx) if row.kind == "action"}
            changed = []
            for action, before in look(tx).items():
                maximum = wanted[action]
                if in_force.get(action) == before:
                    _write(tx, "action", action, maximum)
                    changed.append(action)
                if maximum is None:
                    verbs.delete_code_limit(tx, action=action)
                else:
                    verbs.record_code_limit(tx, action=action, maximum=maximum, now=self._database.now())
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
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise StepwellError(f"limit {kind}: the name must be 1 to {_LONGEST_NAME} printable characters")
    if maximum is not None and (type(maximum) is not int or not 0 <= maximum <= _MOST):
        raise StepwellError(f"limit {kind} {name}: {maximum!r} is not a whole number between 0 and {_MOST}")


def _write(tx: Transaction, kind: Kind, name: str, maximum: int | None) -> bool:
    """Whether that changed anything."""
    if maximum is None:
        return verbs.delete_limit(tx, kind=kind, name=name) > 0
    return verbs.set_limit(tx, kind=kind, name=name, maximum=maximum) > 0
