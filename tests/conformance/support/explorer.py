"""The explorer: runs thousands of small trees of steps through the real engine at once and predicts how each ends.

A `Plan` describes a tree and how each of its steps ends. Two oracles predict the result: `predict`, a recursion over
the finished tree without any ticks, and `ModelRun`, which runs the tree in the reference model and so can also predict
the effect of operators' retries. `EngineRun` runs the trees in the engine.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Final
from uuid import uuid4

from stepwell import Stepwell
from stepwell.define.drafts import NewStep
from stepwell.define.outcomes import Permanent, Skip, Stop
from stepwell.events import StepChanged
from stepwell.model.claimed import Claim
from stepwell.model.errors import ActionRefused
from stepwell.model.states import CONCLUDED, FAILED, UNFINISHED, State
from stepwell.run.finish import Finisher
from stepwell.store.engine import sweep
from tests.conformance.support.engine import raised, returned
from tests.conformance.support.reference_model import HANDLER, Model, Node, Refused

ACTION: Final = "explore"
# How a step of a plan ends when it runs; `cancel`: an operator cancels it while its code runs. `Plan.cancelled`: an
# operator cancels it before it runs.
OUTCOMES: Final = ("ok", "fail", "stop", "skip", "cancel")

FinalState = tuple[State, str | None]
ChangeRecord = tuple[State | None, State, str | None, str | None, int]

_HISTORY: Final = "SELECT step_id, from_state, to_state, reason, actor, attempt FROM step_transitions ORDER BY id"


@dataclass(frozen=True, slots=True)
class Plan:
    """One step with its descendants."""

    outcome: str = "ok"
    children: tuple[Plan, ...] = ()
    index: int = 1
    handler: bool = False
    cancelled: bool = False
    spawns: bool = False  # its children are created by its own code; otherwise they exist before it runs
    again: str = "ok"  # how it ends when it is run again


@dataclass(slots=True, eq=False)
class Site:
    """A plan at its position in a tree."""

    number: int
    plan: Plan
    parent: Site | None
    siblings: list[Site]
    children: list[Site] = field(default_factory=list)
    after: list[Site] = field(default_factory=list)
    rule: str = "all_concluded"

    @property
    def type(self) -> str:
        return HANDLER if self.plan.handler else "default"

    @property
    def in_front(self) -> list[Site]:
        return [s for s in self.siblings if s.type == self.type and s.plan.index < self.plan.index]

    def path_to_root(self) -> list[Site]:
        """Itself and its ancestors, from the bottom up."""
        return [self] if self.parent is None else [self, *self.parent.path_to_root()]

    def creator(self) -> Site | None:
        """The step whose code creates it."""
        return next((site for site in self.path_to_root()[1:] if site.plan.spawns), None)


Tree = list[Site]


def lay_out(roots: Sequence[Plan], *, one_block: bool = False) -> Tree:
    """The sites of one or more trees: each before its descendants, siblings in the order of their block."""
    sites: Tree = []

    def place(plan: Plan, parent: Site | None, siblings: list[Site]) -> None:
        site = Site(len(sites), plan, parent, siblings)
        sites.append(site)
        siblings.append(site)
        for child in sorted(plan.children, key=lambda child: child.index):
            place(child, site, site.children)

    block: list[Site] = []
    for root in sorted(roots, key=lambda root: root.index):
        place(root, None, block if one_block else [])
    return sites


def predict(tree: Tree) -> dict[int, FinalState]:
    """How every step of a tree ends, by the phases applied to the finished tree."""

    @cache
    def exists(site: Site) -> bool:
        parent = site.parent
        return parent is None or (ran(parent) if parent.plan.spawns else exists(parent))

    @cache
    def ran(site: Site) -> bool:
        parent, plan = site.parent, site.plan
        if not exists(site) or plan.cancelled or (parent is not None and not opened(parent)):
            return False
        return (not plan.handler or in_trouble(site)) and not unsatisfiable(site)

    def opened(site: Site) -> bool:
        return ran(site) and site.plan.outcome == "ok"

    def in_trouble(site: Site) -> bool:
        return any(not other.plan.handler and final_state(other)[0] in FAILED for other in site.siblings)

    def unsatisfiable(site: Site) -> bool:
        return blocked_from_the_start(site) or behind(site, lambda other: final_state(other)[0] not in CONCLUDED)

    # Operators cancel before anything runs, so the steps behind a cancelled one are blocked before anything runs.
    @cache
    def blocked_from_the_start(site: Site) -> bool:
        return behind(
            site, lambda other: any(s.plan.cancelled or blocked_from_the_start(s) for s in _created_with(other))
        )

    @cache
    def final_state(site: Site) -> FinalState:
        parent, plan = site.parent, site.plan
        if plan.cancelled:
            return State.CANCELLED, "operator"
        if parent is not None and not opened(parent):
            return with_its_parent(site, final_state(parent)[0])
        if plan.handler and not in_trouble(site):
            return State.NOT_RUNNABLE, "dormant"
        if unsatisfiable(site):
            return State.NOT_RUNNABLE, "blocked"
        if plan.outcome == "ok" and site.children:
            if all(child.plan.handler or final_state(child)[0] in CONCLUDED for child in site.children):
                return State.COMPLETED, "children_concluded"
            return State.FAILED, "children_failed"
        return _OWN_ENDS[plan.outcome]

    def with_its_parent(site: Site, end: State) -> FinalState:
        creator = site.creator()
        no_tick_between = creator is not None and not opened(creator)
        if creator is not None and no_tick_between and final_state(creator)[0] is State.SKIPPED:
            end = State.SKIPPED  # phase 2 (skip) runs before phase 3 (cancel)
        if end in (State.SKIPPED, State.CANCELLED):
            return end, f"parent_{end.lower()}"
        if site.plan.handler:
            return State.NOT_RUNNABLE, "dormant"
        if end is State.NOT_RUNNABLE or (blocked_from_the_start(site) and not no_tick_between):
            return State.NOT_RUNNABLE, "blocked"
        return State.FAILED, "parent_failed"

    return {site.number: final_state(site) for site in tree if exists(site)}


def behind(site: Site, bad: Callable[[Site], bool]) -> bool:
    """Whether bad ends of its predecessors make a step unsatisfiable."""
    if any(bad(other) for other in site.in_front):
        return True
    if not site.after or site.rule == "all_ended":
        return False
    return (any if site.rule == "all_concluded" else all)(bad(other) for other in site.after)


def _created_with(site: Site) -> list[Site]:
    """The step, and its ancestors that were created together with it."""
    creator = site.creator()
    return [
        other for other in site.path_to_root() if other is site or (other.creator() is creator and other is not creator)
    ]


_OWN_ENDS: Final[dict[str, FinalState]] = {
    "ok": (State.COMPLETED, None),
    "fail": (State.FAILED, "error"),
    "stop": (State.STOPPED, "stopped"),
    "skip": (State.SKIPPED, "skipped"),
    "cancel": (State.CANCELLED, "operator"),
}


def plain(state: State, reason: str | None) -> FinalState:
    """A final state, normalized for comparison: two rules can block a step at once, and either may apply first."""
    return state, "blocked" if reason in ("predecessor_failed", "parent_not_runnable") else reason


def batch(tree: Tree, creator: Site | None) -> Tree:
    """The steps that are created together: at the start, or by a step's code."""
    return [site for site in tree if site.creator() is creator]


class ModelRun:
    """One tree in the reference model."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._model = Model()
        self._runs: Counter[int] = Counter()
        self._create(None)

    def _create(self, creator: Site | None) -> None:
        made = batch(self._tree, creator)
        for site in made:
            parent = None if site.parent is None else self._model.nodes[site.parent.number]
            after = tuple(self._model.nodes[other.number] for other in site.after)
            block = id(site.siblings)
            node = Node(site.number, parent, block, site.plan.index, site.type, after, site.rule)
            self._model.add(node)
        for site in made:
            if site.plan.cancelled:
                self._model.cancel(self._model.nodes[site.number])

    def settle(self) -> dict[int, FinalState]:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        self._model.settle()
        while ready := self._model.eligible(now):
            for node in ready:
                self._model.dispatch(node)
            for node in ready:
                self._run(node, self._model.claim(node), now)
            self._model.settle()
        return {number: plain(*final_state) for number, final_state in self._model.states().items()}

    def _run(self, node: Node, token: int, now: datetime) -> None:
        site = self._tree[node.id]
        if site.plan.spawns and not node.children:
            self._create(site)
        outcome = site.plan.again if self._runs[node.id] else site.plan.outcome
        self._runs[node.id] += 1
        if outcome == "cancel":
            self._model.cancel(node)
            self._model.release_lease(node, token)
        else:
            self._model.finish(node, token, outcome, now)

    def retry(self, number: int) -> bool:
        """Whether an operator's retry is accepted."""
        try:
            self._model.retry(self._model.nodes[number], datetime(2026, 1, 1, tzinfo=UTC))
        except Refused:
            return False
        return True


class EngineRun:
    """Many trees in the real engine. With `rng`, everything that has no fixed order happens in random order."""

    def __init__(
        self, app: Stepwell, trees: Sequence[Tree], *, slots: int = 100_000, rng: random.Random | None = None
    ) -> None:
        if ACTION not in app.jobs.actions():
            app.job(name=ACTION)(lambda: None)
        self.app, self._trees, self._rng, self._slots = app, trees, rng, slots
        self._events: list[StepChanged] = []
        app.events.on(StepChanged)(self._events.append)
        self._finisher = Finisher(app.database)
        self._runner = app.inline_runner(slots=slots)
        self._groups = [row.group for row in app.groups()]
        self._dispatchers = [app.dispatcher(batch_limit=100_000)]
        if rng is not None:
            self._dispatchers = [app.dispatcher([group], batch_limit=100_000) for group in self._groups]
        self._ids: dict[Site, int] = {}
        self._sites: dict[int, tuple[Tree, Site]] = {}
        self._runs: Counter[Site] = Counter()
        self._claimed: list[Claim] = []  # claimed but not run yet
        self._orphans: list[Claim] = []  # cancelled while they ran; their processes are still alive
        self._create((tree, None) for tree in trees)

    def _create(self, batches: Iterable[tuple[Tree, Site | None]]) -> None:
        made: list[tuple[Tree, Site, NewStep]] = []
        for tree, creator in batches:
            drafts: dict[Site, NewStep] = {}
            blocks: dict[int, str] = {}
            for site in batch(tree, creator):
                shared = site.parent is None and len(site.siblings) > 1
                drafts[site] = NewStep(
                    action=ACTION,
                    parent=None if site.parent is None else drafts.get(site.parent) or self._ids[site.parent],
                    block=blocks.setdefault(id(site.siblings), str(uuid4())) if shared else None,
                    index=site.plan.index,
                    type="resolve-exception" if site.plan.handler else "default",
                    depends_on=[drafts[other] for other in site.after],
                    trigger_rule=site.rule,  # type: ignore[arg-type]
                )
            made += [(tree, site, draft) for site, draft in drafts.items()]
        refs = self.app.enqueue_many([draft for _, _, draft in made])
        for (tree, site, _), ref in zip(made, refs, strict=True):
            self._ids[site] = ref.id
            self._sites[ref.id] = tree, site
        for _, site, _ in made:
            if site.plan.cancelled:
                self.app.cancel(self._ids[site], who="explorer")

    def settle(self, max_rounds: int) -> int:
        """Tick and work until nothing changes; returns the number of rounds."""
        for number in range(max_rounds):
            if not (self._tick() | self._work() | self._release_orphans()):
                return number
        unfinished = [step for step in self.final_states().items() if step[1][0] in UNFINISHED]
        raise AssertionError(f"unfinished steps after {max_rounds} rounds, for example {unfinished[:5]}")

    def _tick(self) -> bool:
        if self._rng is not None:
            self._rng.shuffle(self._dispatchers)
        changed = False
        for dispatcher in self._dispatchers:
            for report in dispatcher.round():
                if report.error is not None:
                    raise report.error
                changed = changed or report.changed > 0
        return changed

    def _work(self) -> bool:
        limit = self._slots
        if self._rng is not None:
            limit = self._rng.randint(1, max(1, self._slots // 2))
        self._claimed += self._runner.claim(limit)
        now, self._claimed = self._claimed, []
        if self._rng is not None:
            self._rng.shuffle(now)
            some = self._rng.randint(1, len(now)) if now else 0
            now, self._claimed = now[:some], now[some:]
        for claim in now:
            self._run(claim)
        return bool(now)

    def _run(self, claim: Claim) -> None:
        tree, site = self._sites[claim.step_id]
        if site.plan.spawns and site.children and site.children[0] not in self._ids:
            self._create([(tree, site)])
        outcome = site.plan.again if self._runs[site] else site.plan.outcome
        self._runs[site] += 1
        match outcome:
            case "ok":
                state = returned(self._finisher, claim, None)
            case "cancel":
                self.app.cancel(claim.step_id, who="explorer")
                assert returned(self._finisher, claim, None) is None, "the stale write of a cancelled run was accepted"
                self._orphans.append(claim)
                return
            case _:
                state = raised(self._finisher, claim, _ERRORS[outcome]())
        assert state is not None, f"the write of the lease holder of {claim.step_id} was ignored"

    def _release_orphans(self) -> bool:
        ready = self._orphans
        if self._rng is not None:
            ready = [claim for claim in ready if self._rng.random() < 0.5]
        had = bool(self._orphans)
        self._orphans = [claim for claim in self._orphans if claim not in ready]
        for claim in ready:
            assert self._finisher.release_lease(claim)
        return had

    def retry(self, tree: Tree, number: int) -> bool:
        """Whether an operator's retry is accepted."""
        try:
            self.app.retry(self._ids[tree[number]], who="explorer")
        except ActionRefused:
            return False
        return True

    def final_states(self) -> dict[int, FinalState]:
        rows = self.app.database.read(lambda tx: tx.fetch("SELECT id, state, reason FROM steps", {}))
        return {row["id"]: plain(State(row["state"]), row["reason"]) for row in rows}

    def results(self) -> list[dict[int, FinalState]]:
        """How each step of each tree ended."""
        final_states = self.final_states()
        return [
            {site.number: final_states[self._ids[site]] for site in tree if site in self._ids} for tree in self._trees
        ]

    def check(self) -> None:
        """Everything that must hold when all steps have ended."""
        assert self.app.check_invariants() == []
        marked = self.app.database.read(lambda tx: [g for g in self._groups if sweep.has_marks(tx, group=g)])
        assert marked == [], "marks were left behind"
        assert self.app.sweep() == []
        assert self.app.stats().agenda == {}, "something is still on the agenda"
        assert [final_state for final_state in self.final_states().values() if final_state[0] in UNFINISHED] == []
        assert self._changes_in_events() == self._changes_in_history(), "events and history differ"

    def _changes_in_events(self) -> dict[int, list[ChangeRecord]]:
        """The changes of each step, by its events, in order."""
        changes: dict[int, list[ChangeRecord]] = {}
        for event in self._events:
            fact = (event.from_state, event.to_state, event.reason, event.actor, event.attempt)
            changes.setdefault(event.step_id, []).append(fact)
        return changes

    def _changes_in_history(self) -> dict[int, list[ChangeRecord]]:
        """The changes of the same steps, by their history."""
        first = min((event.step_id for event in self._events), default=0)
        rows = self.app.database.read(lambda tx: tx.fetch(_HISTORY, {}))
        changes: dict[int, list[ChangeRecord]] = {}
        for row in rows:
            if row["step_id"] >= first:
                fact = (row["from_state"], row["to_state"], row["reason"], row["actor"], row["attempt"])
                changes.setdefault(row["step_id"], []).append(fact)
        return changes

    def close(self) -> None:
        self._runner.close()


_ERRORS: Final[dict[str, Callable[[], Exception]]] = {"fail": Permanent, "stop": Stop, "skip": Skip}


def show(tree: Tree, *results: dict[int, FinalState]) -> str:
    """A tree with the results for each of its steps, for the message of a failed test."""
    lines = []
    for site in tree:
        plan = site.plan
        words = [
            f"{'  ' * (len(site.path_to_root()) - 1)}#{site.number} index {plan.index}",
            "handler" if plan.handler else "",
            "cancelled before it runs" if plan.cancelled else plan.outcome,
            "spawns" if plan.spawns and plan.children else "",
            f"{site.rule} of {[other.number for other in site.after]}" if site.after else "",
        ]
        final_states = [" ".join(map(str, result.get(site.number, ("absent",)))) for result in results]
        lines.append(f"{' '.join(word for word in words if word)}: {' | '.join(final_states)}")
    return "\n".join(lines)
