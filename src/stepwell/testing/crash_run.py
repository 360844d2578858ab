"""One run with one crash, and what continues after it: in this process, or in child processes that are killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stepwell.dispatch.lock import LOCK_SECONDS
from stepwell.model.errors import StepwellError
from stepwell.model.leases import LEASE_SECONDS
from stepwell.testing.binding import bound
from stepwell.testing.child import Progress, kill_this_process, run_in_child
from stepwell.testing.clock import ManualClock
from stepwell.testing.crash_point import Commits, Crashed, CrashPoint

if TYPE_CHECKING:
    from stepwell.app import Stepwell

# After this time a worker that died counts as dead, and the lock of a dispatcher that died has expired.
DEAD_AFTER_SECONDS: Final = max(LEASE_SECONDS, LOCK_SECONDS) + 1.0
# Jobs may kill their process themselves. One that always does is Failed after four deaths.
MAX_DEATHS: Final = 20


@dataclass(frozen=True, slots=True)
class CrashRun:
    """What is run: `begin` enqueues, `work` runs until everything has settled."""

    app: Stepwell
    begin: Callable[[], object]
    work: Callable[[Stepwell], object]
    begin_too: bool

    def in_process(self, url: str, clock: ManualClock, crash_at: CrashPoint | None) -> Commits:
        """Run with a simulated crash: an exception ends the transaction, and everything of the app is built anew."""
        commits = Commits(crash_at)
        begun: list[bool] = []
        try:
            self._first(url, clock, commits, lambda: begun.append(True))
        except Crashed:
            commits.crashed = True
        if commits.crashed:
            self._recover(url, clock, begins=not begun)
        return commits

    def in_children(self, url: str, clock: ManualClock, crash_at: CrashPoint | None) -> Commits:
        """Run in a child process that kills itself at the crash point; other children continue."""
        progress = Progress(clock.now())
        commits = Commits(crash_at, crash=kill_this_process, may_be_killed=True)

        def first() -> None:
            begun: list[bool] = []
            commits.note = lambda count: progress.write(clock.now(), count, begun=bool(begun))
            self._first(url, clock, commits, lambda: begun.append(True))
            progress.write(clock.now(), commits.count, begun=True)

        finished = run_in_child(first)
        clock.move_to(progress.now)
        commits.count = progress.commits
        for _ in range(MAX_DEATHS):
            if finished:
                return commits
            finished = run_in_child(lambda: self._recovery(url, clock, progress))
            clock.move_to(progress.now)
        raise StepwellError(f"{MAX_DEATHS} child processes died one after another, without a crash that was asked for")

    def _first(self, url: str, clock: ManualClock, commits: Commits, begun: Callable[[], None]) -> None:
        with bound(self.app, url, clock=clock):
            self.app.open()
            if self.begin_too:
                commits.watch(self.app.database)
            self.begin()
            begun()
            if not self.begin_too:
                commits.watch(self.app.database)
            self.work(self.app)

    def _recovery(self, url: str, clock: ManualClock, progress: Progress) -> None:
        """What a child does after the death of another: it may die itself, if a job kills it."""
        begins = not progress.begun
        commits = Commits(
            note=lambda count: progress.write(clock.now(), progress.commits, begun=not begins), may_be_killed=True
        )
        self._recover(url, clock, begins=begins, commits=commits)
        progress.write(clock.now(), progress.commits, begun=True)

    def _recover(self, url: str, clock: ManualClock, *, begins: bool, commits: Commits | None = None) -> None:
        """What the next process does: wait until the leases of the dead one have expired, reap, and continue."""
        clock.advance(DEAD_AFTER_SECONDS)
        with bound(self.app, url, clock=clock):
            self.app.open()
            if commits is not None:
                commits.watch(self.app.database)
            if begins:
                self.begin()
            self.app.reaper().round()
            self.work(self.app)
