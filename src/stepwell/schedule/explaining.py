"""Why did a schedule (not) run at a certain time? Answered from the ledger, the history and the presence log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias
from zoneinfo import ZoneInfo

import msgspec

from stepwell.model.errors import CronParseError
from stepwell.schedule.cron import CronExpression, explain_time
from stepwell.schedule.decisions import DISABLED, MISFIRE, NOT_CREATED, OVERLAP, START_DEADLINE
from stepwell.schedule.definition import decoded, recorded, seed_of, timetable
from stepwell.schedule.errors import ScheduleNotFound
from stepwell.schedule.finding import find
from stepwell.schedule.ledger import Period, periods
from stepwell.schedule.presence import absence
from stepwell.store import Transaction
from stepwell.store.engine import executions, schedules, slots
from stepwell.store.engine.executions import ExecutionRow
from stepwell.store.engine.schedules import ChangeRow, CronRow
from stepwell.store.engine.slots import SlotRow

Verdict: TypeAlias = Literal[
    "fired", "skipped", "undecided", "ahead", "no_slot", "not_created_yet", "deleted", "pruned", "missing"
]
LATE: Final = timedelta(seconds=120)  # a slot that was decided later than this gets the reason


class SlotExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: a verdict, a sentence, and further facts."""

    schedule: str
    at: datetime
    verdict: Verdict
    text: str
    facts: list[str] = []
    execution: ExecutionRow | None = None


def explain_slot(tx: Transaction, name: str, at: datetime, now: datetime) -> SlotExplanation:
    """Explain one minute; a time without a zone is one of the schedule's own zone."""
    cron = schedules.cron_by_name(tx, name=name)
    if cron is None:
        return _deleted(tx, name, at)
    facts: list[str] = []
    moment = _moment(cron, at, facts)
    return _Question(tx, cron, moment, now, facts).answer()


def _deleted(tx: Transaction, name: str, at: datetime) -> SlotExplanation:
    changes = schedules.changes_named(tx, name=name)
    if not changes or changes[-1].kind != "deleted":
        find(tx, name)
        raise ScheduleNotFound(f"no schedule {name!r}")
    return SlotExplanation(
        schedule=name,
        at=at if at.tzinfo else at.replace(tzinfo=UTC),
        verdict="deleted",
        text=f"The schedule was deleted, and its ledger with it: {_by(changes[-1])}.",
    )


def _moment(cron: CronRow, at: datetime, facts: list[str]) -> datetime:
    if at.tzinfo is not None:
        return at.astimezone(UTC).replace(second=0, microsecond=0)
    definition = recorded(cron)
    try:
        local = explain_time(timetable(definition.expression, definition.zone, seed_of(cron)), at)
    except CronParseError:
        return at.replace(second=0, microsecond=0, tzinfo=UTC)
    if local.clock != "normal":
        facts.append(f"{local.text}.")
    if local.fires_at:
        return local.fires_at[0]
    return at.replace(second=0, microsecond=0, tzinfo=ZoneInfo(definition.zone)).astimezone(UTC)


class _Question:
    """One schedule at one minute."""

    def __init__(self, tx: Transaction, cron: CronRow, at: datetime, now: datetime, facts: list[str]) -> None:
        self._tx = tx
        self._cron = cron
        self._at = at
        self._now = now
        self._facts = facts
        self._changes = schedules.changes_of(tx, job_id=cron.id)

    def answer(self) -> SlotExplanation:
        self._add_other_executions()
        if self._at <= self._now and (row := self._row()) is not None:
            return self._fired(row) if row.outcome == "fired" else self._skipped(row)
        if self._changes and self._at <= self._changes[0].changed_at:
            return self._say("not_created_yet", f"The schedule did not exist then: {_by(self._changes[0])}.")
        found = periods(self._tx, self._cron, max(self._now, self._at))
        period = next((each for each in found if each.after < self._at <= each.until), None)
        times = None if period is None else self._times(period)
        if period is None or times is None or not times.is_slot(self._at):
            return self._no_slot(found, period, times)
        if self._at > self._now:
            return self._ahead(period)
        if self._cron.last_slot is None or self._at > self._cron.last_slot:
            return self._undecided(period)
        if self._cron.ledger_from is not None and self._at <= self._cron.ledger_from:
            begins = _shown(self._cron.ledger_from)
            return self._say("pruned", f"It was a slot, but the ledger was pruned: it begins at {begins}.")
        return self._say("missing", "It was a slot, but the ledger has no row for it. That is a bug: please report it.")

    def _row(self) -> SlotRow | None:
        """The row of the ledger about this slot; in a gap there are times that are no slots."""
        row = slots.slot_row(self._tx, job_id=self._cron.id, slot=self._at)
        if row is None or row.expression is None or row.zone is None:
            return row
        return row if timetable(row.expression, row.zone, seed_of(self._cron)).is_slot(self._at) else None

    def _times(self, period: Period) -> CronExpression | None:
        try:
            return timetable(period.definition.expression, period.definition.zone, seed_of(self._cron))
        except CronParseError as error:
            self._facts.append(f"{error}.")
            return None

    def _say(self, verdict: Verdict, text: str, execution: ExecutionRow | None = None) -> SlotExplanation:
        return SlotExplanation(
            schedule=self._cron.name,
            at=self._at,
            verdict=verdict,
            text=text,
            facts=self._facts,
            execution=execution,
        )

    def _no_slot(self, found: list[Period], period: Period | None, times: CronExpression | None) -> SlotExplanation:
        if times is not None:
            around = (times.latest(self._at), times.after(self._at))
            nearest = " and ".join(_shown(slot, times) for slot in around if slot is not None)
            self._facts.append(f"The nearest slots are {nearest}.")
        for other in found:
            if other is not period and (there := self._times(other)) is not None and there.is_slot(self._at):
                self._add_change(other)
                break
        what = "an invalid expression" if times is None else f"{times.text!r} ({times.zone})"
        if period is not None and (times is None or len({_timing(each) for each in found}) > 1):
            what += ", which was in force then" if period.until < self._now else ", which is in force"
        return self._say("no_slot", f"{_shown(self._at, times)} is not a slot of {what}.")

    def _add_change(self, other: Period) -> None:
        """Another definition of this schedule has the slot: say who changed it, and when."""
        text = f"It would be a slot of {other.definition.expression!r} ({other.definition.zone}), which was in force"
        if other.until < self._at:
            change = next((each for each in self._changes if each.changed_at == other.until), None)
            ended = "" if change is None else f", until it was {_by(change)}"
            self._facts.append(f"{text} before{ended}.")
        else:
            change = next((each for each in self._changes if each.changed_at == other.after), None)
            began = "later" if change is None else f"only after it was {_by(change)}"
            self._facts.append(f"{text.replace('which was', 'which came')} {began}.")

    def _ahead(self, period: Period) -> SlotExplanation:
        if not period.definition.enabled:
            return self._say("ahead", f"It will not run then: {self._disabled()}.")
        return self._say("ahead", "It is a slot in the future: it will run then.")

    def _undecided(self, period: Period) -> SlotExplanation:
        if not period.definition.enabled:
            return self._say("skipped", f"It did not run: {self._disabled()}.")
        missing = absence(self._tx, self._at, self._now, self._now)
        if missing is None:
            self._facts.append("A scheduler runs: if this does not change within a minute, its log has the reason.")
        else:
            self._facts.append(missing)
        return self._say("undecided", "It is due, and no scheduler has decided it yet.")

    def _fired(self, row: SlotRow) -> SlotExplanation:
        self._add_delay(row)
        execution = None if row.execution_id is None else executions.execution(self._tx, id=row.execution_id)
        if execution is None:
            return self._say("fired", "It ran; its execution was pruned.")
        return self._say("fired", _story(execution), execution)

    def _skipped(self, row: SlotRow) -> SlotExplanation:
        self._add_delay(row)
        if row.until_slot != row.slot and row.expression is not None and row.zone is not None:
            times = timetable(row.expression, row.zone, seed_of(self._cron))
            count = times.count(row.slot - timedelta(microseconds=1), row.until_slot)
            first, last = _shown(row.slot, times), _shown(row.until_slot, times)
            self._facts.append(f"It is one of {count:,} slots, from {first} to {last}, with the same outcome.")
        execution = None if row.execution_id is None else executions.execution(self._tx, id=row.execution_id)
        detail = row.detail or ""
        text = {
            DISABLED: "the schedule was disabled" + self._disabled_at(),
            MISFIRE: f"it was missed ({detail})",
            OVERLAP: f"executions must not overlap (allow_overlap=0), and it {detail}",
            START_DEADLINE: f"it had not begun by its deadline ({_deadline(execution) or detail})",
            NOT_CREATED: f"it could not be created ({detail})",
        }.get(row.reason or "", f"it was skipped by an operator before it began ({detail})")
        return self._say("skipped", f"It did not run: {text}.", execution)

    def _disabled_at(self) -> str:
        for change in reversed(self._changes):
            if change.changed_at <= self._at and _disables(change):
                return f": {_by(change)}"
        return ""

    def _disabled(self) -> str:
        who, why = self._cron.disabled_by or "unknown", self._cron.disabled_reason
        since = "" if self._cron.disabled_at is None else f" at {_shown(self._cron.disabled_at)}"
        return f"the schedule is disabled, by {who}{since}" + (f" ({why})" if why else "")

    def _add_delay(self, row: SlotRow) -> None:
        if row.decided_at - row.until_slot <= LATE or row.reason == DISABLED:
            return
        self._facts.append(f"It was decided at {_shown(row.decided_at)}.")
        if (missing := absence(self._tx, self._at, row.decided_at, self._now)) is not None:
            self._facts.append(missing)

    def _add_other_executions(self) -> None:
        for each in executions.executions_of_slots(self._tx, job_id=self._cron.id, first=self._at, last=self._at):
            other = executions.execution(self._tx, id=each.id)
            if other is not None and other.kind != "slot":
                who = other.requested_by or "unknown"
                self._facts.append(f"It was also backfilled by {who}: execution {other.id} ({other.status}).")


def _story(execution: ExecutionRow) -> str:
    began = "" if execution.started_at is None else f", began at {_shown(execution.started_at)}"
    ended = "" if execution.finished_at is None else f" and ended at {_shown(execution.finished_at)}"
    error = f": {execution.error_message}" if execution.error_message and execution.status != "SUCCESS" else ""
    what = {"PENDING": "waits to run", "RUNNING": "is running"}.get(execution.status, f"ended as {execution.status}")
    return f"It fired: execution {execution.id} {what}{began}{ended}{error}."


def _deadline(execution: ExecutionRow | None) -> str | None:
    return None if execution is None or execution.start_by is None else _shown(execution.start_by)


def _by(change: ChangeRow) -> str:
    why = f" ({change.reason})" if change.reason else ""
    kind = "changed" if change.kind in ("edited", "noticed") else change.kind
    return f"{kind} by {change.actor} at {_shown(change.changed_at)}{why}"


def _disables(change: ChangeRow) -> bool:
    if change.after is None or decoded(change.after).enabled:
        return False
    return change.before is None or decoded(change.before).enabled


def _timing(period: Period) -> tuple[str, str]:
    return period.definition.expression, period.definition.zone


def _shown(moment: datetime, times: CronExpression | None = None) -> str:
    """A time in UTC, and in the zone of the schedule if that is another."""
    form = "%Y-%m-%d %H:%M:%S" if moment.second or moment.microsecond else "%Y-%m-%d %H:%M"
    text = f"{moment.astimezone(UTC).strftime(form)} UTC"
    if times is None or times.zone == "UTC":
        return text
    return f"{text} ({moment.astimezone(times.zone_info):%H:%M} {times.zone})"
