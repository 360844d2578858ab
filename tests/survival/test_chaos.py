"""Workers, dispatchers and reapers that are killed and suspended at random, for some seconds."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

from tests.survival.chaos import Chaos
from tests.survival.support import Cluster

LEASE_SECONDS = 2.0
CHAOS_SECONDS = 8.0


def test_steps_end_once_and_begin_in_order_whatever_is_killed_and_suspended(
    shared_database_url: str, tmp_path: Path
) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    with closing(Cluster(shared_database_url, tmp_path)) as cluster:
        chaos = Chaos(cluster, seed, LEASE_SECONDS)
        chaos.run(CHAOS_SECONDS)
        chaos.finish()
        assert chaos.strikes.total() > 0
        chaos.check()
