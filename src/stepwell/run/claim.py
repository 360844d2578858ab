"""Claiming steps: Dispatched to Running, under a new token and a lease.

A worker with a free slot does not wait for a tick: while the breaker is on, it dispatches and claims the open steps of
its lanes in one transaction.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Final

from stepwell.enqueue.set_aside import log_set_aside, set_aside
from stepwell.model.actors import worker_actor
from stepwell.model.claimed import Claim, ClaimedStep
from stepwell.model.error_text import describe
from stepwell.model.errors import DatabaseUnavailable
from stepwell.run.worker_row import WorkerRow
from stepwell.share.headroom import Headroom, SharedSlots, headroom_for_claim
from stepwell.share.strategies import NORMAL_SHARE, Strategy, Weight, safe_grants, safe_recall, safe_remember
from stepwell.store import Database, Transaction
from stepwell.store.engine import adoption, claims, limits
from stepwell.store.engine.claims import Candidate
from stepwell.store.transaction import UNREADABLE_TEXT

# How long a lease lasts beyond timeout and cooldown: time for the worker to notice and to write the end of the run.
MARGIN_SECONDS: Final = 30.0
_TEXTS: Final = ("arguments", "label", "relatable_type", "relatable_id", "stage", "checkpoint", "response")
_LOGGER: Final = logging.getLogger("stepwell.worker")
ALL_CANDIDATES: Final = 1_000_000  # effectively no limit: each lane returns no more than `limit`


class Claimer:
    """Claims for one worker."""

    def __init__(
        self,
        database: Database,
        worker: WorkerRow,
        strategy: Strategy | None = None,
        weights: Mapping[str, Weight] = MappingProxyType({}),
        *,
        waits_for_ticks: bool = False,
    ) -> None:
        self._database = database
        self._worker = worker
        self._strategy = None if strategy is None else strategy.for_worker(worker.slots)
        self._shares = _SharesOfLimit(strategy)
        self._weights = weights
        self._waits_for_ticks = waits_for_ticks
        self._turn = 0
        self._expects_limits = True  # from then on, whether the last claim found any: asking first costs a round trip
        self.has_left_some = False  # the last claim: steps that are not claimed ahead, or that others took

    def claim(
        self,
        tx: Transaction,
        limit: int,
        running: Mapping[str, int] = MappingProxyType({}),
        starting: int | None = None,
    ) -> list[Claim]:
        """Claim up to `limit` steps, in the order in which they should start; `running` counts this worker's runs.

        The first `starting` of them (None: all) begin at once, in free slots; the others are claimed ahead.
        """
        self.has_left_some = False
        if self._worker.seconds_left() <= 0:
            return []  # under an expired row, the steps would be rescued at once and run twice
        self._turn += 1
        return self._claim(tx, self._pick(tx, limit, running), starting)

    def _claim(self, tx: Transaction, ids: list[int], starting: int | None = None) -> list[Claim]:
        if not ids:
            return []
        worker, now = self._worker, self._database.now()  # after the wait for other claims and for the dispatch
        steps = claims.claim_steps(
            tx,
            ids,
            starting=ids[:starting],
            worker=worker.id,
            hostname=worker.hostname,
            now=now,
            margin=MARGIN_SECONDS,
        )
        self.has_left_some = len(steps) < len(ids)
        set_aside = _set_aside_unreadable(tx, steps, worker.id, now) if tx.has_read_bad_text else set[int]()
        claimed = {
            step.id: Claim(step.id, step.lease_token, worker.id, step, worker.expires_at)
            for step in steps
            if step.id not in set_aside
        }
        return [claimed[id] for id in ids if id in claimed]

    def _pick(self, tx: Transaction, limit: int, running: Mapping[str, int]) -> list[int]:
        if self._worker.slots == 1:  # several begin side by side anyway, and waiting for ticks would cost throughput
            claims.wait_for_dispatch(tx, worker=self._worker.id)
        headroom = headroom_for_claim(tx) if self._expects_limits else None
        found = self._candidates(tx, limit, headroom)
        if headroom is None and found and found[0].has_limits:  # since the last claim
            headroom = headroom_for_claim(tx)
            found = self._candidates(tx, limit, headroom)
        self._expects_limits = headroom is not None and headroom.is_limited
        if self._strategy is not None:
            found = self._share_out(tx, self._strategy, found, limit, running, headroom)
        if headroom is not None:
            found = [each for each in found if headroom.take(each.queue, each.action)]
        return [each.step_id for each in found[:limit]]

    def _candidates(self, tx: Transaction, limit: int, headroom: Headroom | None) -> list[Candidate]:
        pick = claims.pick_in_groups_for_claim if self._worker.groups else claims.pick_for_claim
        return pick(
            tx,
            worker=self._worker.id,
            limit=limit,
            most=limit if headroom is None and self._strategy is None else ALL_CANDIDATES,
            high=limit - limit // NORMAL_SHARE - (self._turn % NORMAL_SHARE == 0),
            open_too=not self._waits_for_ticks,
            full_queues=[] if headroom is None else headroom.full_queues(),
            full_actions=[] if headroom is None else headroom.full_actions(),
        )

    def _share_out(
        self,
        tx: Transaction,
        strategy: Strategy,
        found: list[Candidate],
        limit: int,
        running: Mapping[str, int],
        headroom: Headroom | None,
    ) -> list[Candidate]:
        """The steps that the strategy grants, then the rest by age, in case a limit excludes some of the first.

        Slots that all workers share because of a limit are divided among all their runs, with one memory for all.
        """
        shared: SharedSlots | None = None
        waiting = Counter(each.action for each in found)
        if headroom is not None:  # do not grant what a limit excludes: the turn would be wasted
            queues = Counter(each.queue for each in found)
            limit = min(limit, headroom.left(queues))
            waiting = Counter({action: headroom.left_of(action, count) for action, count in waiting.items()})
            if (shared := headroom.shared(queues)) is not None:
                strategy, running = self._shares.of(shared.slots) or strategy, shared.running
                safe_recall(strategy, shared.memory, self._database.now().timestamp())
        grants = safe_grants(strategy, limit, waiting, self._weights, running)
        if shared is not None and (memory := safe_remember(strategy)) is not None and memory != shared.memory:
            limits.remember_shares(tx, kind=shared.kind, name=shared.name, shares=memory)
        if grants is None:
            return found
        to_take = dict(grants)
        granted, others = [], []
        for each in found:
            if to_take.get(each.action, 0) > 0:
                to_take[each.action] -= 1
                granted.append(each)
            else:
                others.append(each)
        return (_mixed(granted, self._weights) if strategy.order == "by weight" else granted) + others

    def claim_one_by_one(self, limit: int) -> list[Claim]:
        """Claim in transactions of their own, after a claim failed: a step that cannot be claimed is set aside."""
        claimed: list[Claim] = []
        for id in self._database.transact(lambda tx: self._pick(tx, limit, {})):
            try:
                claimed += self._database.transact(partial(self._claim_one, id=id, limit=limit))
            except DatabaseUnavailable:
                raise
            except Exception as error:
                self._set_aside(id, f"the row cannot be claimed: {describe(error)}")
        return claimed

    def _claim_one(self, tx: Transaction, id: int, limit: int) -> list[Claim]:
        if id not in self._pick(tx, limit, {}):
            return []  # another worker was first, or a limit is reached
        return self._claim(tx, [id])

    def _set_aside(self, id: int, message: str) -> None:
        me = self._worker.id
        set_aside(self._database, claims.set_aside, id, message, actor=worker_actor(me), owner=me, logger=_LOGGER)

    def is_there_work(self) -> bool:
        """Whether a claim would find anything; only reads."""
        return self._database.read(lambda tx: claims.has_claimable_steps(tx, worker=self._worker.id)) is not None


class _SharesOfLimit:
    """A strategy that divides the slots of a limit, with its state of the claims since that limit last changed."""

    def __init__(self, strategy: Strategy | None) -> None:
        self._strategy = strategy
        self._slots = 0
        self._made: Strategy | None = None

    def of(self, slots: int) -> Strategy | None:
        if self._strategy is not None and slots != self._slots:
            self._slots, self._made = slots, self._strategy.for_worker(slots)
        return self._made


def _set_aside_unreadable(tx: Transaction, steps: list[ClaimedStep], worker: str, now: datetime) -> set[int]:
    """Fail the steps whose text SQLite cannot decode: their code would get other arguments than were stored."""
    found: dict[int, str] = {}
    for step in steps:
        suspects = [name for name in _TEXTS if UNREADABLE_TEXT in (getattr(step, name) or "")]
        if suspects and (bad := adoption.not_utf8(tx, step.id, suspects)):
            message = f"its {', '.join(bad)} is not valid UTF-8"
            claims.set_aside(tx, id=step.id, actor=worker_actor(worker), message=message, now=now)
            found[step.id] = message
    log_set_aside(tx, list(found.items()), worker, now)
    return set(found)


def _mixed(found: list[Candidate], weights: Mapping[str, Weight]) -> list[Candidate]:
    """High priority first, then the actions interleaved by weight."""
    seen: Counter[tuple[int, str]] = Counter()
    places = []
    for number, each in enumerate(found):
        kind = each.tier, each.action
        places.append((each.tier, (2 * seen[kind] + 1) / Fraction(weights.get(each.action, 1)), number))
        seen[kind] += 1
    return [found[number] for _, _, number in sorted(places)]
