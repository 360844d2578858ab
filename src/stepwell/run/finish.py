"""Writing the end of runs. Stale writes (an old token, a changed state) are ignored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias, TypeVar

from stepwell.define.transport import from_wire
from stepwell.enqueue.create import Creator
from stepwell.events import Events, FailureNotification
from stepwell.model.claimed import Claim
from stepwell.model.clock import since_boot
from stepwell.model.errors import BadChildren, InvalidStep, KeyConflict
from stepwell.model.fingerprint import fingerprint
from stepwell.model.reasons import BAD_CHILDREN
from stepwell.model.states import State
from stepwell.run.ending import Ended, Ending
from stepwell.store import Change, Database, Transaction
from stepwell.store.engine import agenda, runs
from stepwell.store.engine.runs import LogEntry, Success

T = TypeVar("T")
# Called with the endings of runs whose steps belong to a feature, in the transaction that writes them; returns, in the
# same order, what is written instead.
OnEnding: TypeAlias = Callable[[Transaction, Sequence[Ended]], Sequence[Ended]]

# Three rescues can be bad luck; if a fourth process dies while running the step, the step is the cause.
MAX_RESCUES: Final = 3
# An answer about a lease that took this many leases is asked for again before the next stage begins: this process may
# have been suspended after its commit, and others may have the step.
OLD_ANSWER_LEASES: Final = 1 / 3


class Finisher:
    """Writes the end of runs; returns the step's new state, or None if the write was stale."""

    def __init__(self, database: Database, creator: Creator | None = None, events: Events | None = None) -> None:
        self._database = database
        self._creator = creator or Creator(database)
        self._events = events or Events()
        self._on_ending: dict[str, OnEnding] = {}

    def on_ending(self, feature: str, hook: OnEnding) -> None:
        """Let a feature decide how the runs of its steps end. The endings of all other steps do not pay for it."""
        self._on_ending[feature] = hook

    def write(self, claim: Claim, ending: Ending) -> State | None:
        """One ending, in a transaction of its own."""
        try:
            state = self._database.transact(lambda tx: self._write_one(tx, claim, ending))
        except BadChildren as error:  # a retry would create the same ones
            failed = Ending(verb="fail", reason=BAD_CHILDREN, error=str(error), duration=ending.duration)
            return self.write(claim, failed)
        self._notify(claim, ending, state)
        return state

    def write_all(self, endings: Sequence[Ended]) -> list[State | None]:
        """Many endings in one transaction, except those with children."""
        return self.write_all_and(endings, lambda tx: None)[0]

    def write_all_and(self, endings: Sequence[Ended], more: Callable[[Transaction], T]) -> tuple[list[State | None], T]:
        """The same, with more work in that transaction."""
        plain = [pair for pair in endings if not pair[1].children]

        def work(tx: Transaction) -> tuple[list[State | None], T]:
            return self._write_plain(tx, plain), more(tx)

        written, done = self._database.transact(work)
        for (claim, ending), state in zip(plain, written, strict=True):
            if state is State.FAILED:
                self._notify(claim, ending, state)
        states = dict(zip(map(id, plain), written, strict=True))
        return [states[id(pair)] if id(pair) in states else self.write(*pair) for pair in endings], done

    def _write_plain(self, tx: Transaction, endings: Sequence[Ended]) -> list[State | None]:
        endings = self._decided_by_features(tx, endings)
        done = {
            id(pair): Success(pair[0], pair[1].response, pair[1].duration)
            for pair in endings
            if pair[1].verb == "finish" and pair[1].error is None
        }
        states: dict[int, State] = {}
        if done:
            finished = list(done.values())
            states = runs.finish_all(tx, finished, actor=finished[0].claim.actor, now=self._database.now())
        written = [states.get(pair[0].step_id) if id(pair) in done else self._write(tx, *pair) for pair in endings]
        self._open_returned(tx, endings, written)
        return written

    def _decided_by_features(self, tx: Transaction, endings: Sequence[Ended]) -> Sequence[Ended]:
        for feature in {claim.step.belongs_to for claim, _ in endings}:
            if feature is None:
                continue
            self._database.hooks.load(feature)
            hook = self._on_ending.get(feature)
            if hook is None:
                continue
            places = [place for place, (claim, _) in enumerate(endings) if claim.step.belongs_to == feature]
            decided = dict(zip(places, hook(tx, [endings[place] for place in places]), strict=True))
            endings = [decided.get(place, pair) for place, pair in enumerate(endings)]
        return endings

    def _write_one(self, tx: Transaction, claim: Claim, ending: Ending) -> State | None:
        ((claim, ending),) = self._decided_by_features(tx, [(claim, ending)])
        state = self._write(tx, claim, ending)
        self._open_returned(tx, [(claim, ending)], [state])
        return state

    def _open_returned(self, tx: Transaction, endings: Sequence[Ended], states: Sequence[State | None]) -> None:
        """Open the steps that returned to Pending, without waiting for a tick."""
        if State.PENDING not in states:
            return
        returned = [claim.step_id for (claim, _), state in zip(endings, states, strict=True) if state is State.PENDING]
        agenda.open_returned(tx, ids=returned, now=self._database.now())

    def _write(self, tx: Transaction, claim: Claim, ending: Ending) -> State | None:
        if ending.verb == "lost":
            return None
        now = self._database.now()
        if ending.children and not self._create_children(tx, claim, ending.children, now):
            return None
        changes = _apply(tx, claim, ending, now)
        if not changes:
            return None
        if ending.children:
            runs.open_steps_waiting_for(tx, [claim.step_id], now)
        return changes[0].to_state

    def _notify(self, claim: Claim, ending: Ending, state: State | None) -> None:
        if state is State.FAILED and ending.notify:
            reason = ending.reason or ("poison" if ending.verb == "rescue" else ending.verb)
            self._events.publish(FailureNotification(claim.step_id, claim.step.action, reason, ending.error))

    def _create_children(
        self, tx: Transaction, claim: Claim, children: Sequence[dict[str, Any]], now: datetime
    ) -> bool:
        """Create the children of a step if the claim still holds its lease."""
        if runs.lock_lease(tx, id=claim.step_id, token=claim.token) is None:
            return False
        try:
            self._creator.create_in(tx, [from_wire(child) for child in children], now)
        except (InvalidStep, KeyConflict) as error:
            raise BadChildren(str(error)) from error
        return True

    def record(self, claim: Claim, stage: str, response: str, children: Sequence[dict[str, Any]]) -> bool:
        """Store the end of compute, with its result and its children; the later stages are still to run."""

        def work(tx: Transaction) -> bool:
            now = self._database.now()
            step_id, token = claim.step_id, claim.token
            # If the response to the first write was lost, this is a repetition and the children exist already.
            new = bool(children) and runs.is_recorded(tx, id=step_id, token=token) is None
            if new and not self._create_children(tx, claim, children, now):
                return False
            return bool(runs.record_compute(tx, id=step_id, token=token, stage=stage, response=response, now=now))

        asked_at = since_boot()
        holds = self._database.transact(work)
        while holds and since_boot() - asked_at > self._database.lease_seconds * OLD_ANSWER_LEASES:
            asked_at = since_boot()
            holds = self.holds_lease(claim)
        return holds

    def holds_lease(self, claim: Claim) -> bool:
        """Whether the claim still holds its lease: the step was neither ended from outside nor claimed again."""
        found = self._database.read(lambda tx: runs.holds_lease(tx, id=claim.step_id, token=claim.token))
        return found is not None

    def checkpoint(self, claim: Claim, data: str) -> bool:
        """Store data for the next attempt."""
        return bool(
            self._database.transact(lambda tx: runs.save_checkpoint(tx, id=claim.step_id, token=claim.token, data=data))
        )

    def note(
        self, claim: Claim, *, progress: tuple[float, float | None] | None = None, logs: Sequence[LogEntry] = ()
    ) -> None:
        """Store the progress and the log lines of a run."""

        def work(tx: Transaction) -> None:
            if progress is not None:
                done, total = progress
                runs.record_progress(tx, id=claim.step_id, token=claim.token, done=done, total=total)
            if logs:
                runs.add_logs(tx, claim, logs)

        self._database.transact(work)

    # single verbs -----------------------------------------------------------------------------------------

    def hand_back(self, claim: Claim) -> State | None:
        """Return the step to Pending without spending a retry."""
        return self.write(claim, Ending(verb="hand_back"))

    def release_lease(self, claim: Claim) -> bool:
        """Release the lease: the run has ended, whatever the state of the step."""

        def work(tx: Transaction) -> bool:
            return bool(runs.release_lease(tx, id=claim.step_id, token=claim.token, now=self._database.now()))

        return self._database.transact(work)


def _when(ending: Ending, now: datetime) -> datetime | None:
    if ending.at is not None:
        return ending.at
    if ending.verb == "hand_back" and not ending.in_:
        return None  # as if it had never been claimed
    return now + timedelta(seconds=ending.in_)


def _apply(tx: Transaction, claim: Claim, ending: Ending, now: datetime) -> list[Change]:
    """Write the transition of an ending."""
    lease = {"id": claim.step_id, "token": claim.token}
    actor, when = claim.actor, _when(ending, now)
    error, stack, stage, duration = ending.error, ending.stack, ending.stage, ending.duration
    match ending.verb:
        case "finish":
            return runs.finish(
                tx, **lease, response=ending.response, error=error, stack=stack, duration=duration, actor=actor, now=now
            )
        case "retry_later":
            return runs.retry_later(
                tx, **lease, dispatch_after=when, error=error, stack=stack, stage=stage, actor=actor, now=now
            )
        case "throttle":
            return runs.throttle(tx, **lease, dispatch_after=when, stage=stage, actor=actor, now=now)
        case "check_again":
            return runs.check_again(tx, **lease, dispatch_after=when, stage=stage, actor=actor, now=now)
        case "not_completed":
            return runs.not_completed(
                tx, **lease, dispatch_after=when, limit=ending.limit, cut=ending.cut, error=error, stage=stage,
                actor=actor, now=now,
            )  # fmt: skip
        case "run_again":
            return runs.run_again(tx, **lease, dispatch_after=when, actor=actor, now=now)
        case "rescue":
            return runs.rescue(
                tx, **lease, dispatch_after=when, limit=ending.limit, began=True, error=error, actor=actor, now=now
            )
        case "fail":
            return runs.fail(
                tx, **lease, reason=ending.reason, error=error, stack=stack, stage=stage, duration=duration,
                fingerprint=fingerprint(claim.step.action, error, stack), actor=actor, now=now,
            )  # fmt: skip
        case "stop":
            return runs.stop(
                tx, **lease, reason=ending.reason, duration=duration,
                fingerprint=fingerprint(claim.step.action, f"Stop: {ending.reason or ''}"), actor=actor, now=now,
            )  # fmt: skip
        case "skip":
            return runs.skip(tx, **lease, reason=ending.reason, duration=duration, actor=actor, now=now)
        case "hand_back":
            return runs.hand_back(tx, **lease, dispatch_after=when, error=error, stage=stage, actor=actor, now=now)
        case "lost":
            return []
