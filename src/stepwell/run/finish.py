"""Telling the database how runs ended. A word that comes too late (an old token, a changed state) changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from stepwell.define.transport import from_wire
from stepwell.enqueue.create import Creator
from stepwell.events import Events, StepFailed
from stepwell.model.errors import BadChildren, InvalidStep, KeyConflict
from stepwell.model.reasons import BAD_CHILDREN
from stepwell.model.states import State
from stepwell.run.claimed import Claim, Ended
from stepwell.run.ending import Ending
from stepwell.store import Database, Row, Transaction, Wake

T = TypeVar("T")

_STATES: Final = {state.value: state for state in State}

# Three rescues are bad luck; a fourth death under the same step is the step's doing.
RESCUES: Final = 3


class Finisher:
    """Writes the end of runs. An answer is the step's new state, or None if the word came too late."""

    def __init__(self, database: Database, creator: Creator | None = None, events: Events | None = None) -> None:
        self._database = database
        self._creator = creator or Creator(database)
        self._events = events or Events()

    def write(self, claim: Claim, ending: Ending) -> State | None:
        """One ending, in a transaction of its own."""
        try:
            state = self._database.transact(lambda tx: self._write(tx, claim, ending))
        except BadChildren as error:  # no other attempt would make better ones
            failed = Ending(verb="fail", reason=BAD_CHILDREN, error=str(error), duration=ending.duration)
            return self.write(claim, failed)
        self._tell(claim, ending, state)
        return state

    def write_all(self, endings: Sequence[Ended]) -> list[State | None]:
        """Many endings in one transaction, but for those that bring children."""
        return self.write_all_and(endings, lambda tx: None)[0]

    def write_all_and(self, endings: Sequence[Ended], more: Callable[[Transaction], T]) -> tuple[list[State | None], T]:
        """The same, with something more to do in that transaction."""
        plain = [pair for pair in endings if not pair[1].children]

        def work(tx: Transaction) -> tuple[list[State | None], T]:
            return self._write_plain(tx, plain), more(tx)

        written, done = self._database.transact(work)
        for (claim, ending), state in zip(plain, written, strict=True):
            self._tell(claim, ending, state)
        states = dict(zip(map(id, plain), written, strict=True))
        return [states[id(pair)] if id(pair) in states else self.write(*pair) for pair in endings], done

    def _write_plain(self, tx: Transaction, endings: Sequence[Ended]) -> list[State | None]:
        done = [pair for pair in endings if pair[1].verb == "finish" and pair[1].error is None]
        states: dict[int, State | None] = {}
        if done:
            said = tx.columns(
                ids=[claim.step_id for claim, _ in done],
                tokens=[claim.token for claim, _ in done],
                responses=[ending.response for _, ending in done],
                durations=[ending.duration for _, ending in done],
            )
            actor, now = done[0][0].actor, self._database.now()
            states |= tx.records(_became, "finish_many", **said, actor=actor, now=now)
            if any(claim.step.has_neighbours for claim, _ in done):
                tx.tell(Wake.DECISIONS)
                self._open_ready_behind(tx, list(states))
        written = {id(pair) for pair in done}
        return [
            states.get(claim.step_id) if id(pair) in written else self._write(tx, claim, ending)
            for pair in endings
            for claim, ending in [pair]
        ]

    def _open_ready_behind(self, tx: Transaction, finished: list[int]) -> None:
        """Let in who waited for these, as the next tick would: it finds the marks all the same, and decides the rest.

        A chain need not wait for a tick after each of its steps, nor a parent's first children for one. What is let in
        here by a look that was too old is turned away at the claim, which looks again.
        """
        gates = [row["id"] for row in tx.rows("waiting_behind", ids=tx.array(finished))] if finished else []
        if gates and tx.change("open_ready", ids=tx.array(gates), now=self._database.now()):
            tx.tell(Wake.WORK)

    def _write(self, tx: Transaction, claim: Claim, ending: Ending) -> State | None:
        if ending.verb == "lost":
            return None
        now = self._database.now()
        if ending.children and not self._adopt(tx, claim, ending.children, now):
            return None
        words = _WORDS[ending.verb](ending, now)
        state = tx.value(ending.verb, id=claim.step_id, token=claim.token, actor=claim.actor, now=now, **words)
        tx.tell(Wake.DECISIONS)
        if state is None:
            return None
        if ending.children:
            self._open_ready_behind(tx, [claim.step_id])
        return State(state)

    def _tell(self, claim: Claim, ending: Ending, state: State | None) -> None:
        if state is State.FAILED and ending.notify:
            reason = ending.reason or ("poison" if ending.verb == "rescue" else ending.verb)
            self._events.publish(StepFailed(claim.step_id, claim.step.action, reason, ending.error))

    def _adopt(self, tx: Transaction, claim: Claim, children: Sequence[dict[str, Any]], now: datetime) -> bool:
        """Create the children of a step, if the claim still holds."""
        if tx.value("hold_lease", id=claim.step_id, token=claim.token) is None:
            return False
        try:
            self._creator.create_in(tx, [from_wire(child) for child in children], now)
        except (InvalidStep, KeyConflict) as error:
            raise BadChildren(str(error)) from error
        return True

    def record(self, claim: Claim, stage: str, response: str, children: Sequence[dict[str, Any]]) -> bool:
        """The end of compute, with its result and its children; what comes after it is still to run."""

        def work(tx: Transaction) -> bool:
            now = self._database.now()
            said = {"id": claim.step_id, "token": claim.token}
            # Said twice when the answer to the first time was lost: the children are there already.
            new = bool(children) and tx.value("is_recorded", **said) is None
            if new and not self._adopt(tx, claim, children, now):
                return False
            return bool(tx.change("record_compute", stage=stage, response=response, now=now, **said))

        return self._database.transact(work)

    def holds(self, claim: Claim) -> bool:
        """Whether the claim still counts: nobody has ended its step from outside, or taken it over."""
        found = self._database.read(lambda tx: tx.value("holds_lease", id=claim.step_id, token=claim.token))
        return found is not None

    def checkpoint(self, claim: Claim, data: str) -> bool:
        """What the next attempt is to find."""
        return bool(
            self._database.transact(
                lambda tx: tx.change("keep_checkpoint", id=claim.step_id, token=claim.token, data=data)
            )
        )

    def note(
        self, claim: Claim, *, progress: tuple[float, float | None] | None = None, logs: Sequence[Row] = ()
    ) -> None:
        """What a run shows of itself while it goes on."""

        def work(tx: Transaction) -> None:
            if progress is not None:
                done, total = progress
                tx.change("note_progress", id=claim.step_id, token=claim.token, done=done, total=total)
            attempt = claim.step.attempts
            rows = [(claim.step_id, attempt, tx.moment(log["at"]), log["level"], log["message"]) for log in logs]
            if rows:
                tx.insert("step_logs", ("step_id", "attempt", "at", "level", "message"), rows)

        self._database.transact(work)

    # single words -----------------------------------------------------------------------------------------

    def hand_back(self, claim: Claim) -> State | None:
        """It was not run to its end, and nothing is spent."""
        return self.write(claim, Ending(verb="hand_back"))

    def release_lease(self, claim: Claim) -> bool:
        """The run has ended, whatever the database thinks of the step: its lease need not stand any longer."""
        now = self._database.now()
        return bool(
            self._database.transact(lambda tx: tx.change("release_lease", id=claim.step_id, token=claim.token, now=now))
        )


def _became(step_id: int, state: str) -> tuple[int, State]:
    return step_id, _STATES[state]


def _when(ending: Ending, now: datetime) -> datetime | None:
    if ending.at is not None:
        return ending.at
    if ending.verb == "hand_back" and not ending.in_:
        return None  # as if it had never been taken
    return now + timedelta(seconds=ending.in_)


def _spelled(*names: str) -> Callable[[Ending, datetime], dict[str, Any]]:
    """The parameters that a verb's statement takes from the ending."""

    def words(ending: Ending, now: datetime) -> dict[str, Any]:
        found = {name: getattr(ending, name) for name in names if name != "dispatch_after"}
        return found | {"dispatch_after": _when(ending, now)} if "dispatch_after" in names else found

    return words


_WORDS: Final[dict[str, Callable[[Ending, datetime], dict[str, Any]]]] = {
    "finish": _spelled("response", "error", "stack", "duration"),
    "retry_later": _spelled("dispatch_after", "error", "stack", "stage"),
    "throttle": _spelled("dispatch_after", "stage"),
    "check_again": _spelled("dispatch_after", "stage"),
    "not_completed": _spelled("dispatch_after", "limit", "error", "stage"),
    "rescue": _spelled("dispatch_after", "limit", "error"),
    "fail": _spelled("reason", "error", "stack", "stage", "duration"),
    "stop": _spelled("reason", "duration"),
    "skip": _spelled("reason", "duration"),
    "hand_back": _spelled("dispatch_after", "error", "stage"),
}
