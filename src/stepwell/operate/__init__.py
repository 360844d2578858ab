"""Operating a running system: operator actions, the breaker, the reaper, invariant checks."""
