"""Making the schedules of the database those that the code of an app declares, by any number of processes at once.

An operator's overrides are kept, and whether a schedule is enabled is the operator's decision. Code that was seen
before newer code of the same app changes nothing: during a deployment both run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec
from msgspec import structs

from stepwell.schedule.checks import refuse
from stepwell.schedule.declaring import content_hash
from stepwell.schedule.definition import Definition, changed_fields, decoded, recorded, seed_of
from stepwell.schedule.editing import CODE, Author, overrides_of
from stepwell.schedule.engine import ScheduleEngine
from stepwell.schedule.errors import InvalidSchedule
from stepwell.schedule.finding import find_and_lock
from stepwell.store import Database, Transaction
from stepwell.store.engine import placement, schedules
from stepwell.store.engine.schedules import CronRow

_LOGGER: Final = logging.getLogger("stepwell.schedules")

LEFT_THE_CODE: Final = "no longer declared by the code of this app"


class Reconciled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the schedules that code declares, by name."""

    created: list[str] = []
    changed: list[str] = []
    disabled: list[str] = []  # the code no longer declares them
    taken: list[str] = []  # left alone: an operator or another app has a schedule of this name
    newer_code_since: datetime | None = None  # this code is older: nothing was changed


class ScheduleReconciler:
    """Reconciles the schedules of one app."""

    def __init__(self, database: Database, engine: ScheduleEngine, app: str) -> None:
        self._database = database
        self._engine = engine
        self._app = app

    def run(self, declared: Mapping[str, Definition], *, force: bool = False) -> Reconciled:
        """Write what is different. `force`: also if newer code was seen, as after a rollback."""
        if self._database.read(lambda tx: self._is_done(tx, declared)):
            return Reconciled()
        done = self._database.transact(lambda tx: self._reconcile(tx, declared, force))
        self._report(done)
        return done

    def _is_done(self, tx: Transaction, declared: Mapping[str, Definition]) -> bool:
        rows = [row for row in schedules.crons_of_app(tx, app=self._app) if row.declared is not None]
        newest = schedules.newest_code(tx, app=self._app)
        if newest is None:
            return not declared and not rows
        wanted = {name: definition.encoded() for name, definition in declared.items()}
        return newest.content_hash == content_hash(declared) and {row.name: row.declared for row in rows} == wanted

    def _reconcile(self, tx: Transaction, declared: Mapping[str, Definition], force: bool) -> Reconciled:
        placement.lock_name(tx, name=f"schedules of {self._app}")
        now = self._database.now()
        mine = content_hash(declared)
        newest = schedules.newest_code(tx, app=self._app)
        is_known = schedules.is_known_code(tx, app=self._app, content_hash=mine) is not None
        if newest is not None and newest.content_hash != mine and is_known:
            if not force:
                return Reconciled(newer_code_since=newest.seen_at)
            schedules.forget_code(tx, app=self._app, content_hash=mine)
        schedules.add_code(tx, app=self._app, content_hash=mine, now=now)
        self._refuse_problems(tx, declared)
        done = Reconciled()
        by = Author(f"{CODE}{self._app}", None, now)
        for name, definition in sorted(declared.items()):
            self._declare(tx, name, definition, by, done)
        for row in schedules.crons_of_app(tx, app=self._app):
            if row.declared is not None and row.name not in declared:
                self._withdraw(tx, row, by)
                done.disabled.append(row.name)
        return done

    def _refuse_problems(self, tx: Transaction, declared: Mapping[str, Definition]) -> None:
        found = []
        for name, definition in declared.items():
            row = schedules.cron_by_name(tx, name=name)
            try:
                refuse(name, self._engine.problems(tx, definition, name if row is None else seed_of(row)))
            except InvalidSchedule as error:
                found.append(str(error))
        if found:
            raise InvalidSchedule("\n".join(found))

    def _declare(self, tx: Transaction, name: str, definition: Definition, by: Author, done: Reconciled) -> None:
        row = schedules.cron_by_name(tx, name=name)
        if row is None:
            self._engine.editor.create(tx, name, definition, by, app=self._app, declared=definition)
            done.created.append(name)
            return
        if row.app != self._app:
            done.taken.append(name)
            return
        row = find_and_lock(tx, self._database, self._engine, name)
        if row.declared == definition.encoded():
            return
        kept = {} if row.declared is None else overrides_of(row)
        now = recorded(row)
        wanted = structs.replace(
            definition, enabled=_enabled(row, definition), **{field: getattr(now, field) for field in kept}
        )
        self._engine.editor.write(tx, row, wanted, by, "edited", declared=definition, overrides=kept)
        if changed_fields(now, wanted):
            done.changed.append(name)

    def _withdraw(self, tx: Transaction, row: CronRow, by: Author) -> None:
        """The code no longer declares it. From now on it belongs to operators, who may enable it again."""
        row = find_and_lock(tx, self._database, self._engine, row.name)
        off = structs.replace(recorded(row), enabled=False)
        reason = LEFT_THE_CODE if recorded(row).enabled else None
        author = Author(by.actor, LEFT_THE_CODE, by.now)
        self._engine.editor.write(tx, row, off, author, "disabled", declared=None, overrides={}, disabled_reason=reason)

    def _report(self, done: Reconciled) -> None:
        if done.newer_code_since is not None:
            _LOGGER.warning(
                "schedules of %s: newer code was seen at %s, so they stay as they are. After a rollback, run "
                "`stepwell schedules sync --force`", self._app, done.newer_code_since.isoformat(timespec="seconds"),
            )  # fmt: skip
        for name in done.taken:
            _LOGGER.error(
                "schedule %r of %s is not written: an operator or another app has a schedule of this name. "
                "Delete that one, or declare this one with another name", name, self._app,
            )  # fmt: skip


def _enabled(row: CronRow, declared: Definition) -> bool:
    """An operator decides, unless the code changes its own declaration, or the code itself had disabled it."""
    now = recorded(row).enabled
    if not now:
        return declared.enabled and (row.disabled_by or "").startswith(CODE)
    return declared.enabled or (row.declared is not None and not decoded(row.declared).enabled)
