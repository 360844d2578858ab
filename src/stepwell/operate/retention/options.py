"""How long settled workflows are kept, and what happens to them afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from stepwell.model.errors import StepwellError

KEEP_DAYS: Final = 30.0
ARCHIVE_DAYS: Final = 365.0
# Steps that are looked at, and at most deleted, in one transaction: 40 ms on SQLite, where others wait meanwhile.
BATCH: Final = 1_000
# Time between the end of a pass and the next one. A pass that finds nothing reads what is older than the period.
PAUSE_SECONDS: Final = 600.0

_LONGEST_DAYS: Final = 36_500.0  # later there would be no date to subtract it from


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOptions:
    """What `Stepwell(…, retention=…)` and the section `[retention]` of stepwell.toml set.

    >>> RetentionOptions(keep_days=90).keep_days
    90
    >>> str(RetentionOptions()), str(RetentionOptions(keep_days=float("inf")))
    ('settled workflows are deleted 30 days after their end', 'everything is kept')
    """

    keep_days: float = KEEP_DAYS  # float("inf"): for ever
    archive: bool = False  # to the table `steps_archive`; else they are deleted
    archive_days: float = ARCHIVE_DAYS  # after which they are deleted from there
    key_days: float | None = None  # idempotency keys find their step for this long; None: as long as `keep_days`
    batch: int = BATCH
    pause_seconds: float = PAUSE_SECONDS

    def __post_init__(self) -> None:
        for name in ("keep_days", "archive_days", "key_days", "pause_seconds"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise StepwellError(f"retention: {name} is {value!r}; expected a number of at least 0")
        if self.batch < 1:
            raise StepwellError(f"retention: batch is {self.batch!r}; expected a number of at least 1")

    @property
    def keeps_everything(self) -> bool:
        return self.keep_days >= _LONGEST_DAYS

    def rule(self, now: datetime, *, before: datetime | None = None) -> Rule:
        """What may go at this moment; `before` is used instead of the period."""
        keys = self.keep_days if self.key_days is None else self.key_days
        return Rule(
            before=min(now, before if before is not None else days_before(now, self.keep_days)),
            keys_before=days_before(now, keys),
            archive=self.archive,
        )

    def __str__(self) -> str:
        if self.keeps_everything:
            return "everything is kept"
        if not self.archive:
            return f"settled workflows are deleted {self.keep_days:g} days after their end"
        then = "for ever" if self.archive_days >= _LONGEST_DAYS else f"for {self.archive_days:g} days"
        return f"settled workflows are archived {self.keep_days:g} days after their end, {then}"


@dataclass(frozen=True, slots=True)
class Rule:
    """Which workflows go, and where."""

    before: datetime  # those that ended before this
    keys_before: datetime  # with an idempotency key, those that were also created before this
    archive: bool


def days_before(now: datetime, days: float) -> datetime:
    """A moment in the past; for ever ago is the year 1."""
    return datetime.min.replace(tzinfo=now.tzinfo, year=2) if days >= _LONGEST_DAYS else now - timedelta(days=days)
