"""Telling the database how a run ended. A word that comes too late (an old token, a changed state) changes nothing."""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from stepwell import codec
from stepwell.model.errors import UnstorableValue
from stepwell.model.reasons import ENGINE_REASONS
from stepwell.model.states import State
from stepwell.run.outcomes import Permanent, Reschedule, Retry, Skip, Stop
from stepwell.store import Database, Row, Transaction

MAX_ERROR: Final = 8_000
MAX_STACK: Final = 64_000
BACKOFF_CAP: Final = 30.0


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to run a step: its row at that moment, with the token that every later word must carry."""

    step_id: int
    token: int
    worker: str
    row: Row

    @property
    def actor(self) -> str:
        return f"worker:{self.worker}"


def backoff(retries: int) -> float:
    """Seconds before the next try: 2^n with jitter, at most 30."""
    return min(BACKOFF_CAP, 2.0**retries) * random.uniform(0.5, 1.0)


class Finisher:
    """Writes the end of runs. Every method answers with the step's new state, or None if the word came too late."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def returned(self, claim: Claim, response: Any, duration: float) -> State | None:
        try:
            text = codec.encode(response, "response")
        except UnstorableValue as error:
            # The effects have happened: running it again would repeat them.
            return self.failed(claim, f"the result cannot be stored: {error}", None, duration, "unstorable_result")
        return self._say(claim, "finish", response=text, duration=duration)

    def raised(self, claim: Claim, error: BaseException, duration: float) -> State | None:
        """Route an exception: a control flow of its own, a retry while some are left, or a failure."""
        now = self._database.now()
        match error:
            case Stop():
                return self._say(claim, "stop", reason=_said(error) or "stopped", duration=duration)
            case Skip():
                return self._say(claim, "skip", reason=_said(error) or "skipped", duration=duration)
            case Reschedule():
                return self._say(claim, "throttle", dispatch_after=error.at or now + timedelta(seconds=error.in_))
            case Retry():
                return self._retry(claim, error, _when(error, claim, now), duration)
            case Permanent():
                return self.failed(claim, describe(error), stack_of(error), duration)
        when = now + timedelta(seconds=backoff(claim.row["retries"] + 1))
        return self._retry(claim, error, when, duration)

    def _retry(self, claim: Claim, error: BaseException, when: datetime, duration: float) -> State | None:
        message, stack = describe(error), stack_of(error)
        if claim.row["retries"] >= claim.row["max_retries"]:
            return self.failed(claim, message, stack, duration, "max_retries_reached")
        return self._say(claim, "retry_later", dispatch_after=when, error=message, stack=stack)

    def failed(
        self, claim: Claim, message: str, stack: str | None, duration: float, reason: str = "error"
    ) -> State | None:
        return self._say(claim, "fail", reason=reason, error=message, stack=stack, duration=duration)

    def hand_back(self, claim: Claim) -> State | None:
        return self._say(claim, "hand_back")

    def let_go(self, claim: Claim) -> bool:
        """The run has ended, whatever the database thinks of the step: its lease need not stand any longer."""
        now = self._database.now()
        return bool(
            self._database.transact(lambda tx: tx.change("let_go", id=claim.step_id, token=claim.token, now=now))
        )

    def _say(self, claim: Claim, statement: str, **values: Any) -> State | None:
        now = self._database.now()

        def work(tx: Transaction) -> State | None:
            state = tx.value(statement, id=claim.step_id, token=claim.token, actor=claim.actor, now=now, **values)
            return None if state is None else State(state)

        return self._database.transact(work)


def _when(error: Retry, claim: Claim, now: datetime) -> datetime:
    if error.at is not None:
        return error.at
    return now + timedelta(seconds=backoff(claim.row["retries"] + 1) if error.in_ is None else error.in_)


def _said(error: BaseException) -> str:
    """What a job gave as its reason, never to be taken for one of the engine's own."""
    try:
        text = codec.clean_text(str(error), 200)
    except Exception:
        return ""
    return f"job: {text}" if text in ENGINE_REASONS else text


def describe(error: BaseException) -> str:
    """The error in one line, even if it cannot print itself."""
    try:
        text = str(error)
    except Exception:
        text = "<its text cannot be printed>"
    return codec.clean_text(f"{type(error).__name__}: {text}" if text else type(error).__name__, MAX_ERROR)


def stack_of(error: BaseException) -> str:
    return codec.clean_text("".join(traceback.format_exception(error)), MAX_STACK)
