"""How long a lease is: the time without a heartbeat after which a worker counts as dead, and its steps go to others."""

from __future__ import annotations

from typing import Final

LEASE_SECONDS: Final = 30.0
# A heartbeat every sixth of a second; more would keep a small machine busy with them.
SHORTEST_LEASE_SECONDS: Final = 0.5
