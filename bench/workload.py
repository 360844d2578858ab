"""A tick that does real work: it settles 20 marks, opens the 20 gates behind them, and dispatches 50 steps."""

from __future__ import annotations

from typing import Final

from bench.rows import ACTION, BEFORE_THE_CROWD, GROUP, NEVER, Parent
from bench.timing import stopwatch
from stepwell import NewStep, Stepwell
from stepwell.dispatch.tick import TickReport
from stepwell.model.claimed import Claim
from stepwell.model.ids import Uuid7Generator
from stepwell.run.ending import Ending
from stepwell.run.finish import Finisher

# Each pair is a step that has just ended and one that waited for it: in a block, under a parent, by a DAG edge.
BLOCK_PAIRS: Final = 7
CHILD_PAIRS: Final = 7
DAG_PAIRS: Final = 6
MARKS: Final = BLOCK_PAIRS + CHILD_PAIRS + DAG_PAIRS
OPEN: Final = 30
SLOTS: Final = 256


class Workload:
    """Prepares the same work again and again on one database, and times the tick that does it."""

    def __init__(self, app: Stepwell) -> None:
        self._app = app
        app.job(name=ACTION)(lambda: None)
        self._dispatcher = app.dispatcher([GROUP])
        self._runner = app.inline_runner(slots=SLOTS)
        self._finisher = Finisher(app.database)
        self._uuids = Uuid7Generator()
        self._round = 0
        self.busy = self._busy_parent()

    def close(self) -> None:
        self._runner.close()

    def tick(self) -> float:
        """Seconds of one tick: the probe, the lock, all phases, the tick log."""
        self._prepare()
        with stopwatch() as watch:
            (report,) = self._dispatcher.round()
        assert report.error is None, report.error
        assert not report.ended_early
        assert (report.opened, report.dispatched) == (MARKS, MARKS + OPEN), report
        self._clear_away()
        return watch.seconds

    def dispatch_a_batch(self) -> TickReport:
        """One tick over whatever is open; what it dispatched is run to its end afterwards."""
        self._runner.heartbeat()
        (report,) = self._dispatcher.round()
        assert report.error is None, report.error
        self._finish(self._claim())
        return report

    def _busy_parent(self) -> Parent:
        """A parent that waits for its children, for as long as the benchmark lasts."""
        parent = NewStep(action=ACTION, group=GROUP)
        last = NewStep(action=ACTION, parent=parent, index=BEFORE_THE_CROWD, delay=NEVER)
        step, _ = self._app.enqueue_many([parent, last])
        self._come_to_rest()
        self._finish(self._claim())
        self._come_to_rest()
        row = self._app.step(step)
        assert row.child_block_uuid is not None
        return Parent(row.id, row.child_block_uuid, row.uuid)

    def _prepare(self) -> None:
        self._runner.heartbeat()
        self._round += 1
        drafts: list[NewStep] = []
        for _ in range(BLOCK_PAIRS):
            block = self._uuids.next()
            drafts += [NewStep(action=ACTION, group=GROUP, block=block, index=index) for index in (1, 2)]
        for _ in range(DAG_PAIRS):
            first = NewStep(action=ACTION, group=GROUP)
            drafts += [first, NewStep(action=ACTION, group=GROUP, depends_on=[first])]
        for place in (0, 1):
            index = 2 * self._round + place
            drafts += [NewStep(action=ACTION, parent=self.busy.id, index=index) for _ in range(CHILD_PAIRS)]
        self._app.enqueue_many(drafts)
        self._come_to_rest()
        firsts = self._claim()
        assert len(firsts) == MARKS, f"{len(firsts)} of {MARKS} were dispatched"
        self._finish(firsts)
        self._app.enqueue_many([NewStep(action=ACTION, group=GROUP) for _ in range(OPEN)])

    def _clear_away(self) -> None:
        claims = self._claim()
        assert len(claims) == MARKS + OPEN, f"{len(claims)} of {MARKS + OPEN} were dispatched"
        self._finish(claims)
        self._come_to_rest()

    def _come_to_rest(self) -> None:
        for report in self._dispatcher.run_until_quiet():
            if report.error is not None:
                raise report.error

    def _claim(self) -> list[Claim]:
        return self._runner.claim(2 * SLOTS)

    def _finish(self, claims: list[Claim]) -> None:
        # One by one: a batch would let in who waits behind them, and leave nothing for the tick to do.
        for claim in claims:
            assert self._finisher.write(claim, Ending(verb="finish", response="null")) is not None
