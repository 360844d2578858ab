"""The exchange with the database: endings are written and the next steps are claimed in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from stepwell.model.claimed import Claim
from stepwell.model.error_text import describe
from stepwell.model.errors import DatabaseUnavailable, StepwellError
from stepwell.model.reasons import ERROR
from stepwell.model.states import State
from stepwell.run.claim import Claimer
from stepwell.run.claim_ahead import BATCH, ClaimAhead
from stepwell.run.ending import Ended, Ending
from stepwell.run.executors import Executor
from stepwell.run.finish import Finisher
from stepwell.run.in_flight import InFlight
from stepwell.run.log_fields import log_ending
from stepwell.run.poll_times import PollTimes
from stepwell.run.worker_report import WorkerReport
from stepwell.store import Transaction

_LOGGER: Final = logging.getLogger("stepwell.worker")

# Endings are batched for this long while there is more to run.
GATHER_SECONDS: Final = 0.005


class Exchange:
    """Writes the endings of one worker, and claims steps for it."""

    def __init__(
        self,
        finisher: Finisher,
        claimer: Claimer,
        executor: Executor,
        in_flight: InFlight,
        polls: PollTimes,
        claim_ahead: ClaimAhead,
        report: WorkerReport,
    ) -> None:
        self._finisher = finisher
        self._claimer = claimer
        self._executor = executor
        self._in_flight = in_flight
        self._polls = polls
        self._claim_ahead = claim_ahead
        self._report = report

    def writes_at(self) -> float:
        """When the current batch of endings is due."""
        return self._in_flight.oldest_ending + GATHER_SECONDS

    def run(self, now: float, *, stopping: bool) -> list[Claim]:
        """Write and claim; returns the claims, none once the worker is stopping."""
        if self._in_flight.waiting and now < self.writes_at() and len(self._in_flight.endings) < BATCH:
            return []  # the slots are busy, and there is more to come
        want = 0 if stopping else self._wanted(now)
        claims: list[Claim] = []
        if self._in_flight.endings or want:
            claims = self._write_and_claim(want)
            if want and self._claimer.has_left_some:
                self._claim_ahead.stop()  # or slots would never be free for them
            if want and len(claims) == want:
                self._polls.add(now)  # there may be more
        self._polls.ensure_one(now)
        return claims

    def _wanted(self, now: float) -> int:
        if not self._polls.take_due(now):
            return 0
        want = min(self._executor.free() + self._ahead(), BATCH)
        if want <= 0:
            return 0
        # Reading first is cheaper than an empty claim. With endings to write, or with work expected, claim at once.
        if not self._in_flight.endings and not self._polls.is_work_expected and not self._claimer.is_there_work():
            return 0
        return want

    def _ahead(self) -> int:
        most = 0 if self._executor.is_occupied() else self._claim_ahead.steps(self._executor.slots)
        return most - self._executor.prefetched() - len(self._in_flight.waiting)

    def _write_and_claim(self, want: int) -> list[Claim]:
        endings = self._in_flight.endings
        try:
            states, claims = self._finisher.write_all_and(endings, lambda tx: self._claim(tx, want))
        except DatabaseUnavailable:
            raise
        except Exception:
            if not endings:
                _LOGGER.exception("cannot claim %d steps in one transaction; claiming them one by one", want)
                claims = self._claimer.claim_one_by_one(want)
                self._report.claimed += len(claims)
                return claims
            _LOGGER.exception("cannot write %d endings in one transaction; writing them one by one", len(endings))
            self._write_one_by_one()
            return []
        self._in_flight.endings = []
        self._written(endings, states)
        self._report.claimed += len(claims)
        return claims

    def _claim(self, tx: Transaction, want: int) -> list[Claim]:
        if not want:
            return []
        starting = max(0, self._executor.free() - len(self._in_flight.waiting))
        return self._claimer.claim(tx, want, self._in_flight.unfinished_by_action(), starting)

    def _write_one_by_one(self) -> None:
        """The database rejects one of them: fail that step, and write the others."""
        while self._in_flight.endings:
            claim, ending = self._in_flight.endings[0]
            try:
                state = self._finisher.write(claim, ending)
            except DatabaseUnavailable:
                raise
            except Exception as error:
                ending = Ending(
                    verb="fail", reason=ERROR, error=f"the end of the run cannot be written: {describe(error)}"
                )
                state = self._finisher.write(claim, ending)
            del self._in_flight.endings[0]
            self._written([(claim, ending)], [state])

    def write_last(self) -> None:
        """Write the remaining endings, without retries: the worker is about to exit."""
        endings = self._in_flight.take_endings()
        try:
            self._written(endings, self._finisher.write_all(endings) if endings else [])
        except StepwellError as error:
            _LOGGER.warning(
                "cannot write %d endings (%s); the reaper will return their steps to Pending", len(endings), error
            )

    def _written(self, endings: Sequence[Ended], states: Sequence[State | None]) -> None:
        """The endings are committed."""
        self._report.count(states)
        for ended, state in zip(endings, states, strict=True):
            log_ending(ended, state)
            if state is None:
                self._finisher.release_lease(ended[0])
