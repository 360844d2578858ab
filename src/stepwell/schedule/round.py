"""What one round of a scheduler did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Round:
    """What one round did, and when the next one is due."""

    fired: int = 0
    skipped: int = 0
    noticed: int = 0
    failed: int = 0
    pause: float = 0.0

    @property
    def changed(self) -> int:
        return self.fired + self.skipped + self.noticed

    def add(self, part: Round) -> None:
        self.fired += part.fired
        self.skipped += part.skipped
        self.noticed += part.noticed
        self.failed += part.failed
