"""Any number of schedulers on one database, some of them killed between two statements: each slot exactly once."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from datetime import timedelta

import pytest

from stepwell import Stepwell
from stepwell.testing import ManualClock
from tests.survival.schedulers import END, FIRST, MINUTES, SCHEDULES
from tests.survival.support import ROOT, WAIT_SECONDS

pytestmark = pytest.mark.slow


def test_eight_schedulers_decide_each_of_200_slots_exactly_once_while_some_are_killed(shared_database_url: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.survival.schedulers", shared_database_url, str(seed)],
        cwd=ROOT, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 4, done.stderr
    minutes = [FIRST + timedelta(minutes=1 + number) for number in range(MINUTES)]
    with Stepwell(shared_database_url, clock=ManualClock(END)) as app:
        app.schedules.run_once()  # whatever the last ones that died left
        rows = app.database.read(
            lambda tx: tx.fetch(
                "SELECT c.name, e.scheduled_time, s.id AS step_id FROM cron_jobs c JOIN job_executions e "
                "ON e.job_id = c.id LEFT JOIN steps s ON s.id = e.step_id", {},
            )
        )  # fmt: skip
        assert len(rows) == SCHEDULES * MINUTES
        assert set(Counter(row["name"] for row in rows).values()) == {MINUTES}
        assert all(row["step_id"] is not None for row in rows)
        assert len({row["step_id"] for row in rows}) == len(rows)
        for number in range(SCHEDULES):
            found = app.schedules.executions(f"s{number}", limit=100)
            assert sorted(row.scheduled_time for row in found) == minutes
        assert app.schedules.check_ledger() == []
        assert app.check_invariants() == []
        counted = app.database.read(lambda tx: tx.fetch("SELECT count(*) AS n FROM steps", {}))
        assert counted[0]["n"] == len(rows)  # no step without its execution
