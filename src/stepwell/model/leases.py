"""How long a lease is: the time without a heartbeat after which a worker counts as dead, and its steps go to others."""

from __future__ import annotations

from typing import Final

LEASE_SECONDS: Final = 30.0
# A heartbeat every 33 ms: for tests and experiments. In production, a pause of the machine would look like a death.
SHORTEST_LEASE_SECONDS: Final = 0.1
