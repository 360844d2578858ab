"""Main processes that crash at every commit: queueing, running, rescheduling and what depends on them."""

from __future__ import annotations

import pytest

from stepwell import Step, Stepwell
from stepwell.testing import crash_everywhere
from tests.conformance.processes.crystal import Tasks


@pytest.mark.slow
def test_a_main_process_comes_to_the_same_end_whatever_commit_it_crashes_at() -> None:
    """On SQLite in memory: a fresh database of PostgreSQL for each of its fifty crash points takes minutes."""
    app = Stepwell("sqlite://")
    tasks = Tasks(app)

    def work(crashed: Stepwell) -> None:
        clock = crashed.database.clock
        for _ in range(3):
            crashed.run_until_idle(slots=1)
            crashed.main_processes.reschedule()
            clock.sleep(10)
        assert set(tasks.states().values()) == {"completed"}

    def ends(step: Step) -> tuple[str, str]:
        return step.action, str(step.state)

    report = crash_everywhere(lambda: tasks.processes.queue("pair"), app=app, work=work, compare=ends, begin_too=True)
    assert report.commits >= 7  # the queueing, three runs, the reschedule beat, the rows of workers
