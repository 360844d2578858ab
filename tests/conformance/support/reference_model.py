"""The engine in plain Python: the model that the stateful test and the explorer compare it with.

It has no marks, no agenda and no counts. Each rule checks every step again, the slow and obvious way, so it cannot miss
one. It leaves one thing open on purpose: *which* of the eligible steps are dispatched when slots are scarce.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from stepwell.model.states import CONCLUDED, FAILED, TERMINAL, UNFINISHED, State

ENDED_BADLY: Final = TERMINAL - CONCLUDED
CASCADED: Final = ("parent_failed", "parent_cancelled", "parent_not_runnable")
HANDLER: Final = "resolve-exception"

Changes = dict[int, tuple[State, str | None]]


class Refused(Exception):
    """The engine must reject this too, and change nothing."""


@dataclass(slots=True, eq=False)
class Node:
    """A step."""

    id: int
    parent: Node | None = None
    block: object = None
    index: int = 1
    type: str = "default"
    after: tuple[Node, ...] = ()
    rule: str = "all_concluded"
    workflow: object = None
    max_retries: int = 3
    due: datetime | None = None
    state: State = State.PENDING
    reason: str | None = None
    own_code_done: bool = False
    leased: bool = False
    token: int = 0
    attempts: int = 0
    retries: int = 0
    children: list[Node] = field(default_factory=list)
    child_block: object = None
    action: str = ""
    queue: str = "default"
    concurrency_key: str | None = None

    @property
    def over(self) -> bool:
        """Ended, with its lease released."""
        return self.state in TERMINAL and not self.leased

    @property
    def concluded(self) -> bool:
        return self.state in CONCLUDED and not self.leased

    @property
    def dormant(self) -> bool:
        return self.state is State.NOT_RUNNABLE and self.reason == "dormant"

    def below(self) -> Iterator[Node]:
        for child in self.children:
            yield child
            yield from child.below()

    def ancestors(self) -> Iterator[Node]:
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


class Model:
    """All steps of one database."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.blocks: dict[object, list[Node]] = {}
        self.paused: set[object] = set()
        self.lanes: dict[tuple[str, str], datetime] = {}  # until when a worker serves them; empty: all are served

    def states(self) -> dict[int, tuple[State, str | None]]:
        return {node.id: (node.state, node.reason) for node in self.nodes.values()}

    # creating -----------------------------------------------------------------------------------------------

    def refuse(self, new: Iterable[Node]) -> None:
        """Raise if these cannot be created. Their parents and dependencies may be nodes of this call."""
        new = list(new)
        for node in new:
            if node.parent is not None and node.parent.state in TERMINAL and not node.parent.dormant:
                raise Refused("its parent has ended")
            if (node.after and node.type == HANDLER) or any(other.type == HANDLER for other in node.after):
                raise Refused("handlers have no edges")
            if any(other.workflow != node.workflow for other in node.after):
                raise Refused("an edge leaves the workflow")
        if any(node.after for node in new) and self._circular(new):
            raise Refused("they would wait for each other forever")

    def add(self, *new: Node) -> None:
        for node in new:
            if node.type == HANDLER:
                node.state, node.reason = State.NOT_RUNNABLE, "dormant"
            self.nodes[node.id] = node
            self.blocks.setdefault(node.block, []).append(node)
            if node.parent is not None:
                node.parent.children.append(node)

    def _circular(self, new: list[Node]) -> bool:
        """Whether a step could only start after its own end: a depth-first search over what must happen before what."""
        everyone = [node for node in self.nodes.values() if node.state not in CONCLUDED] + new
        before: dict[tuple[str, Node], list[tuple[str, Node]]] = {}
        for node in everyone:
            starts = before.setdefault(("start", node), [])
            starts += [("end", other) for other in node.after]
            starts += [
                ("end", other)
                for other in everyone
                if (other.block, other.type) == (node.block, node.type) and other.index < node.index
            ]
            before.setdefault(("end", node), []).append(("start", node))
            if node.parent is not None:
                starts.append(("start", node.parent))
                before.setdefault(("end", node.parent), []).append(("end", node))
        done, visiting = set[object](), set[object]()

        def is_in_a_cycle(event: tuple[str, Node]) -> bool:
            if event in done:
                return False
            if event in visiting:
                return True
            visiting.add(event)
            found = any(is_in_a_cycle(earlier) for earlier in before.get(event, []))
            visiting.discard(event)
            done.add(event)
            return found

        return any(is_in_a_cycle(event) for event in list(before))

    # readiness ------------------------------------------------------------------------------------------------

    def in_front(self, node: Node) -> list[Node]:
        """The steps of its block and type with a lower index."""
        return [o for o in self.blocks[node.block] if o.type == node.type and o.index < node.index]

    def ready(self, node: Node) -> bool:
        """Section 4, without time, breaker and workers."""
        parent = node.parent
        if node.state is not State.PENDING or node.workflow in self.paused:
            return False
        if parent is not None and not (parent.state is State.RUNNING and parent.own_code_done):
            return False
        if not all(other.concluded for other in self.in_front(node)):
            return False
        match node.rule if node.after else None:
            case "all_concluded":
                return all(other.concluded for other in node.after)
            case "all_ended":
                return all(other.over for other in node.after)
            case "any_concluded":  # a skipped one counts once all have ended
                completed = any(other.concluded and other.state is State.COMPLETED for other in node.after)
                return completed or (any(o.concluded for o in node.after) and all(o.over for o in node.after))
        return True

    def eligible(self, now: datetime) -> list[Node]:
        due = [n for n in self.nodes.values() if self.ready(n) and (n.due is None or n.due <= now)]
        return [n for n in due if self._has_worker(n, now) and not self._is_key_taken(n)]

    def _has_worker(self, node: Node, now: datetime) -> bool:
        return not self.lanes or ((until := self.lanes.get((node.queue, node.action))) is not None and until > now)

    def _is_key_taken(self, node: Node) -> bool:
        """Whether another step with its key, of which one may run, is dispatched or holds a lease."""
        return node.concurrency_key is not None and any(
            other.concurrency_key == node.concurrency_key and (other.leased or other.state is State.DISPATCHED)
            for other in self.nodes.values()
        )

    def unsatisfiable(self, node: Node) -> bool:
        """Behind a step that ended badly, so that it can never run unless an operator acts."""
        if any(other.over and other.state in ENDED_BADLY for other in self.in_front(node)):
            return True
        dead = [other.over and other.state in ENDED_BADLY for other in node.after]
        match node.rule if node.after else None:
            case "all_concluded":
                return any(dead)
            case "any_concluded":
                return all(dead)
        return False

    # the tick -------------------------------------------------------------------------------------------------

    def phase(self, number: int) -> Changes:
        """Run one phase over all steps; returns what it changed."""
        changes: Changes = {}

        def to(node: Node, state: State, reason: str) -> None:
            node.state, node.reason = state, reason
            changes[node.id] = (state, reason)

        self._phases[number](self, to)
        return changes

    def _skip_children(self, to: Callable[[Node, State, str], None]) -> None:
        self._cascade(to, State.SKIPPED, "parent_skipped")

    def _cancel_children(self, to: Callable[[Node, State, str], None]) -> None:
        self._cascade(to, State.CANCELLED, "parent_cancelled")

    def _cascade(self, to: Callable[[Node, State, str], None], state: State, reason: str) -> None:
        for parent in [node for node in self.nodes.values() if node.state is state]:
            for node in list(parent.below()):
                if node.state in UNFINISHED or node.state is State.NOT_RUNNABLE:
                    to(node, state, reason)

    def _needed(self, node: Node) -> bool:
        """A dormant handler whose block has a failure, at the root or under a Running parent."""
        return (
            node.dormant
            and (node.parent is None or (node.parent.state is State.RUNNING and node.parent.own_code_done))
            and any(o.type == "default" and o.over and o.state in FAILED for o in self.blocks[node.block])
        )

    def _promote(self, to: Callable[[Node, State, str], None]) -> None:
        def wake(node: Node) -> None:
            to(node, State.PENDING, "promoted")
            for child in node.children:
                if child.state is State.NOT_RUNNABLE and child.reason in _BLOCKED:
                    wake(child)
            for other in self.nodes.values():
                if (other.state, other.reason) != (State.NOT_RUNNABLE, "predecessor_failed"):
                    continue
                is_behind = node in other.after or node in self.in_front(other)
                if is_behind and (other.parent is None or other.parent.state in UNFINISHED):
                    wake(other)

        for node in [node for node in self.nodes.values() if self._needed(node)]:
            wake(node)

    def _waiting_parents(self) -> list[Node]:
        return [
            node
            for node in self.nodes.values()
            if node.state is State.RUNNING
            and node.own_code_done
            and all(child.over for child in node.children)
            and not any(self._needed(child) for child in node.children)
        ]

    def _fail_parents(self, to: Callable[[Node, State, str], None]) -> None:
        for node in self._waiting_parents():
            if any(child.type == "default" and not child.concluded for child in node.children):
                to(node, State.FAILED, "children_failed")

    def _complete_parents(self, to: Callable[[Node, State, str], None]) -> None:
        for node in self._waiting_parents():
            if all(child.type != "default" or child.concluded for child in node.children):
                to(node, State.COMPLETED, "children_concluded")

    def _cascade_failures(self, to: Callable[[Node, State, str], None]) -> None:
        self._repeat(to, lambda n: n.state in UNFINISHED and _under(n, *FAILED), State.FAILED, "parent_failed")
        behind, under = self.unsatisfiable, lambda n: _under(n, State.NOT_RUNNABLE)
        changed = True
        while changed:
            changed = self._repeat(to, behind, State.NOT_RUNNABLE, "predecessor_failed", State.PENDING)
            changed |= self._repeat(to, under, State.NOT_RUNNABLE, "parent_not_runnable", State.PENDING)

    def _repeat(
        self,
        to: Callable[[Node, State, str], None],
        rule: Callable[[Node], bool],
        state: State,
        reason: str,
        *only: State,
    ) -> bool:
        """Apply a rule until it matches no step; returns whether it ever matched."""
        ever = False
        while found := [n for n in self.nodes.values() if (not only or n.state in only) and rule(n)]:
            ever = True
            for node in found:
                to(node, state, reason)
        return ever

    def _fail_exhausted(self, to: Callable[[Node, State, str], None]) -> None:
        for node in self.nodes.values():
            if node.state is State.PENDING and node.retries > node.max_retries:
                to(node, State.FAILED, "max_retries_reached")

    _phases: Final = {
        2: _skip_children,
        3: _cancel_children,
        4: _promote,
        5: _fail_parents,
        6: _cascade_failures,
        7: _complete_parents,
        8: _fail_exhausted,
    }

    def settle(self) -> None:
        """Tick until nothing changes. A phase that changes something ends its tick, but not two ticks in a row."""
        changed, ended_early = True, False
        while changed:
            changed, whole, ended_early = False, ended_early, False
            for number in self._phases:
                if self.phase(number):
                    changed = True
                    if not whole:
                        ended_early = True
                        break

    def dispatch(self, node: Node) -> None:
        node.state, node.reason = State.DISPATCHED, None

    # writes of workers ------------------------------------------------------------------------------------------

    def claim(self, node: Node) -> int:
        node.state, node.reason, node.leased = State.RUNNING, None, True
        node.attempts += 1
        node.token += 1
        return node.token

    def finish(self, node: Node, token: int, outcome: str, now: datetime, seconds: float = 0.0) -> State | None:
        """The new state, or None if the write is stale."""
        if node.state is not State.RUNNING or not node.leased or node.token != token:
            return None
        node.leased = False
        if outcome == "retry" and node.retries >= node.max_retries:
            node.state, node.reason = State.FAILED, "max_retries_reached"
        elif outcome in ("retry", "throttle"):
            node.state, node.due = State.PENDING, now + timedelta(seconds=seconds)
            node.reason = "throttled" if outcome == "throttle" else "retry"
            node.retries += outcome == "retry"
        elif outcome == "hand_back":
            node.state, node.reason = State.PENDING, "handed_back"
            node.attempts -= 1
        elif outcome == "ok":
            node.own_code_done = True
            if node.children:
                node.reason = "waiting_for_children"
            else:
                node.state = State.COMPLETED
        else:
            node.state, node.reason = _BAD_ENDS[outcome]
        return node.state

    def release_lease(self, node: Node, token: int) -> bool:
        if node.state not in TERMINAL or not node.leased or node.token != token:
            return False
        node.leased = False
        return True

    # actions of operators -----------------------------------------------------------------------------------------

    def cancel(self, node: Node) -> None:
        if node.state in TERMINAL and node.state is not State.NOT_RUNNABLE:
            raise Refused("it has ended")
        node.state, node.reason = State.CANCELLED, "operator"

    def fail(self, node: Node) -> None:
        if node.state in TERMINAL:
            raise Refused("it has ended")
        node.state, node.reason = State.FAILED, "operator"

    def stop(self, node: Node) -> None:
        if node.state is not State.RUNNING:
            raise Refused("it is not running")
        node.state, node.reason = State.STOPPED, "operator"

    def skip(self, node: Node, now: datetime) -> None:
        if node.state in CONCLUDED:
            raise Refused("it has concluded")
        goes_along = [n for n in node.below() if n.state in UNFINISHED or n.state is State.NOT_RUNNABLE]
        self._resolve(node, State.SKIPPED, goes_along, now)

    def complete(self, node: Node, now: datetime) -> None:
        if node.state not in (State.PENDING, *ENDED_BADLY) or not all(child.over for child in node.children):
            raise Refused("it runs, has concluded or has unfinished children")
        if node.state is State.NOT_RUNNABLE and any(c.type == "default" and not c.concluded for c in node.children):
            raise Refused("its children never ran")
        self._resolve(node, State.COMPLETED, [], now)
        node.own_code_done = True

    def _resolve(self, node: Node, state: State, goes_along: list[Node], now: datetime) -> None:
        """Revive the steps behind a resolved failure, and the parent if it has no other failed child."""
        before, node.state, node.reason = node.state, state, "operator"
        if before not in ENDED_BADLY:
            return
        revived = self._all_to_revive([], [node, *goes_along])
        if node.parent is not None and not any(
            child.type == "default" and child.state in ENDED_BADLY for child in node.parent.children
        ):
            revived += self._all_to_revive([], _failed_through_children(node, revived) or [])
        self._revive([other for other in revived if other is not node and other not in goes_along], now)

    def retry(self, node: Node, now: datetime) -> set[int]:
        """Returns the ids of all revived steps."""
        if node.state not in (*FAILED, State.CANCELLED):
            raise Refused("it did not fail, or is only behind a step that did")
        ancestors = _failed_through_children(node, [])
        if ancestors is None:
            raise Refused("an ancestor ended otherwise")
        revived = self._all_to_revive([node], ancestors)
        if any(other.leased for other in revived):
            raise Refused("a lease is not released yet")
        stuck = [c for c in node.children if c.type == "default" and c.state in ENDED_BADLY]
        by_children = (node.state, node.reason) == (State.FAILED, "children_failed")
        if by_children and stuck and not any(child in revived for child in stuck):
            raise Refused("it would fail again at once")
        asleep = [n for n in revived if n.type == HANDLER and n is not node and not n.own_code_done]
        self._revive(revived, now)
        node.reason, node.due = "operator", None
        for handler in asleep:
            handler.state, handler.reason = State.NOT_RUNNABLE, "dormant"
        return {other.id for other in revived}

    def _all_to_revive(self, whole: list[Node], raised: list[Node]) -> list[Node]:
        """`whole`: steps with their descendants. `raised`: ancestors of those, which failed only through children."""

        def with_its_parent(node: Node) -> bool:
            parent = node.parent
            if parent is None or parent not in whole:
                return False
            went_with_it = node.state in ENDED_BADLY and node.reason in CASCADED
            failed_below = parent.own_code_done and node.type == "default" and node.state in FAILED
            was_blocked = (node.state, node.reason) == (State.NOT_RUNNABLE, "predecessor_failed")
            return went_with_it or failed_below or (was_blocked and not self.unsatisfiable(node))

        def with_what_is_in_front(node: Node) -> bool:
            return (
                (node.state, node.reason) == (State.NOT_RUNNABLE, "predecessor_failed")
                and any(other in whole or other in raised for other in (*node.after, *self.in_front(node)))
                and _failed_through_children(node, whole + raised) is not None
            )

        grown = True
        while grown:
            grown = False
            for node in self.nodes.values():
                if node not in whole and (with_its_parent(node) or with_what_is_in_front(node)):
                    raised += _failed_through_children(node, whole + raised) or []
                    whole.append(node)
                    grown = True
        return list(dict.fromkeys(whole + raised))

    def _revive(self, revived: Iterable[Node], now: datetime) -> None:
        for node in revived:
            node.state = State.RUNNING if node.own_code_done else State.PENDING
            node.reason, node.attempts, node.retries = "revived", 0, 0
            if node.token or (node.due is not None and node.due <= now):  # it has run, or is due: no plan lies ahead
                node.due = None

    def copy(self) -> Model:
        """An independent copy."""
        twin = Model()
        twin.paused, twin.lanes = set(self.paused), dict(self.lanes)
        for node in self.nodes.values():
            twin.nodes[node.id] = replace(node, children=[])
        for node in twin.nodes.values():
            node.after = tuple(twin.nodes[other.id] for other in node.after)
            twin.blocks.setdefault(node.block, []).append(node)
            if node.parent is not None:
                node.parent = twin.nodes[node.parent.id]
                node.parent.children.append(node)
        return twin


_BLOCKED: Final = ("predecessor_failed", "parent_not_runnable")
_BAD_ENDS: Final = {
    "fail": (State.FAILED, "error"),
    "stop": (State.STOPPED, "stopped"),
    "skip": (State.SKIPPED, "skipped"),
}


def _under(node: Node, *states: State) -> bool:
    return node.parent is not None and node.parent.state in states


def _failed_through_children(node: Node, revived: list[Node]) -> list[Node] | None:
    """Its ancestors to revive with it, up to one that is revived anyway; None if one ended for another reason."""
    found = []
    for ancestor in node.ancestors():
        if ancestor.state in UNFINISHED or ancestor in revived:
            break
        if (ancestor.state, ancestor.reason) != (State.FAILED, "children_failed"):
            return None
        found.append(ancestor)
    return found
