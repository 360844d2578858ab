"""What runs for long beside a worker, built for one app: the parts that `app.run()` and commands put into a crew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from stepwell.dispatch.dispatcher_part import DispatcherPart
from stepwell.dispatch.sweep_part import SWEEP_SECONDS, SweepPart
from stepwell.operate.fold_part import FoldPart
from stepwell.operate.reaper_part import ReaperPart
from stepwell.operate.retention.retention_part import RetentionPart
from stepwell.schedule.scheduler import Scheduler
from stepwell.schedule.scheduler_part import SchedulerPart

if TYPE_CHECKING:
    from stepwell.app import Stepwell
    from stepwell.dispatch.dispatcher import Dispatcher
    from stepwell.operate.reaper import ReaperOptions
    from stepwell.run.worker import Worker
    from stepwell.service.part import Part


class Parts:
    def __init__(self, app: Stepwell) -> None:
        self._app = app

    def all(self, worker: Worker) -> list[Part]:
        """A worker and the other parts that a system needs."""
        dispatcher = self._app.dispatcher(lock_seconds=worker.row.alive_seconds)
        beside = [self.reaper(), self.scheduler(), self.retention(), *self.of_main_processes()]
        return [worker, *self.of_dispatcher(dispatcher), *beside]

    def of_dispatcher(self, dispatcher: Dispatcher, *, sweep_seconds: float = SWEEP_SECONDS) -> list[Part]:
        """A dispatcher, the sweep of its groups and the fold of the counters."""
        database = self._app.database
        sweep = SweepPart(database, dispatcher.groups, sweep_seconds)
        return [DispatcherPart(dispatcher, database), sweep, FoldPart(database)]

    def of_main_processes(self) -> list[Part]:
        """Their queue and reschedule beats; none without a configuration."""
        return self._app.main_processes.parts() if self._app.has_main_processes else []

    def reaper(self, **options: Unpack[ReaperOptions]) -> Part:
        return ReaperPart(self._app.reaper(**options), self._app.database)

    def scheduler(self) -> Part:
        """A scheduler; first writes the schedules that the code declares."""
        self._app.reconcile_schedules()
        app = self._app
        scheduler = Scheduler(app.database, lambda: app.schedules.due_work(), app.scheduler_options)
        return SchedulerPart(scheduler, app.database)

    def retention(self) -> Part:
        return RetentionPart(self._app.retention, self._app.database, self._app.events)
