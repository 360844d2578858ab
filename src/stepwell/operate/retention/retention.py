"""Retention by hand (`prune`, `archive`) and by itself (`RetentionPart`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial

from stepwell.model.actors import by_hand
from stepwell.model.errors import StepwellError
from stepwell.operate.retention.by_hand import PassByHand
from stepwell.operate.retention.leftovers import delete_from_archive, remove_leftovers
from stepwell.operate.retention.options import RetentionOptions, Rule, days_before
from stepwell.operate.retention.removing import Removed, count, remove
from stepwell.operate.retention.status import RetentionStatus, status_of
from stepwell.operate.retention.walk import Page, next_page
from stepwell.store import Database, Transaction

Progress = Callable[[Removed], None]


class Retention:
    """Deletes or archives what has been settled for long enough.

    Any number may do so at once, and each may be killed at any moment: a transaction moves whole workflows.
    """

    def __init__(self, database: Database, options: RetentionOptions) -> None:
        self._database = database
        self.options = options

    def prune(
        self,
        *,
        keep_days: float | None = None,
        before: datetime | None = None,
        archive_days: float | None = None,
        key_days: float | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
        who: str | None = None,
        why: str | None = None,
    ) -> Removed:
        """Delete workflows that ended more than `keep_days` ago, or before a moment, and old entries of the archive.

        With `dry_run`, only count them. What is left out is as configured. With `who`, a person does it by hand: what
        was removed is recorded as an operation, with `why`.
        """
        options = self._with(keep_days=keep_days, key_days=key_days, archive_days=archive_days, archive=False)
        by_hand = self._by_hand("prune", who, why)
        removed = self._walk(options, before, dry_run, progress, by_hand)
        if not dry_run:
            cutoff = days_before(self._database.now(), options.archive_days)
            while deleted := delete_from_archive(self._database, cutoff, options.batch, by_hand):
                removed.from_archive += deleted
                self._database.let_writers_pass()
                if progress is not None:
                    progress(removed)
        return removed

    def archive(
        self,
        *,
        keep_days: float | None = None,
        before: datetime | None = None,
        key_days: float | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
        who: str | None = None,
        why: str | None = None,
    ) -> Removed:
        """Move such workflows to `steps_archive`."""
        options = self._with(keep_days=keep_days, key_days=key_days, archive=True)
        return self._walk(options, before, dry_run, progress, self._by_hand("archive", who, why))

    def status(self) -> RetentionStatus:
        """What is kept, the last pass, and whether retention keeps up."""
        now = self._database.now()
        return self._database.read(lambda tx: status_of(tx, self.options, now))

    def _with(self, **changes: float | bool | None) -> RetentionOptions:
        # The keys of the configured period are promised, also if this pass keeps other workflows for less.
        promised = self.options.key_days if self.options.key_days is not None else self.options.keep_days
        given = {name: value for name, value in changes.items() if value is not None}
        return replace(self.options, **{"key_days": promised, **given})  # type: ignore[arg-type]

    def _by_hand(self, kind: str, who: str | None, why: str | None) -> PassByHand:
        return PassByHand(kind, by_hand(who, why, self._database.now), {})

    def _walk(
        self,
        options: RetentionOptions,
        before: datetime | None,
        dry_run: bool,
        progress: Progress | None,
        by_hand: PassByHand,
    ) -> Removed:
        now = self._database.now()
        if before is not None and before.tzinfo is None:
            raise StepwellError("retention: `before` has no time zone; nothing was changed")
        if before is None and options.keeps_everything:
            return Removed()
        rule = options.rule(now, before=before)
        by_hand.parameters["before"] = rule.before.isoformat()
        removed, position, counted = Removed(), 0, set[str]()
        while True:
            page = next_page(self._database, position, rule, options.batch)
            removed.add(self._count(page, rule, counted) if dry_run else self.remove_page(page, rule, by_hand))
            if progress is not None:
                progress(removed)
            position = page.last_id
            if page.is_last:
                break
        if not dry_run:
            remove_leftovers(self._database, rule.before)
        return removed

    def remove_page(self, page: Page, rule: Rule, by_hand: PassByHand | None = None) -> Removed:
        """Remove the workflows of one page."""
        removed = Removed()
        for part in page.parts():

            def work(tx: Transaction, part: list[str] = part) -> tuple[Removed, int | None]:
                now = self._database.now()
                gone = remove(tx, part, rule, now)
                return gone, None if by_hand is None else by_hand.record(tx, gone, now)

            gone, operation = self._database.transact(work)
            if by_hand is not None:
                by_hand.committed(operation, gone)
            removed.add(gone)
            self._database.let_writers_pass()
        return removed

    def _count(self, page: Page, rule: Rule, counted: set[str]) -> Removed:
        """A workflow with steps on several pages counts once."""
        removed = Removed()
        page = replace(page, others=[workflow for workflow in page.others if workflow not in counted])
        counted.update(page.others)
        for part in page.parts():
            removed.add(self._database.read(partial(count, workflows=part, rule=rule)))
        return removed
