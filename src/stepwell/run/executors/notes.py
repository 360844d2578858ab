"""The progress and log lines of a run, buffered until they are written."""

from __future__ import annotations

from stepwell.model.claimed import Claim
from stepwell.run.finish import Finisher
from stepwell.store.engine.runs import LogEntry


class Notes:
    """The notes of the current run of a child."""

    def __init__(self) -> None:
        self.progress: tuple[float, float | None] | None = None
        self.logs: list[LogEntry] = []

    def write(self, finisher: Finisher, claim: Claim | None) -> None:
        if claim is not None and (self.progress is not None or self.logs):
            finisher.note(claim, progress=self.progress, logs=self.logs)
            self.clear()

    def clear(self) -> None:
        if self.progress is not None or self.logs:
            self.progress, self.logs = None, []
