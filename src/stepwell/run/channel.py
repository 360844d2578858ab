"""Running a step in this process: its channel to the database, and the call that runs its lifecycle."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stepwell.define.definition import JobDefinition
from stepwell.model.claimed import Claim
from stepwell.run.ending import Ending
from stepwell.run.finish import Finisher
from stepwell.run.lifecycle import handle, run_without_loop
from stepwell.run.results import read_related
from stepwell.run.running import RunningStep
from stepwell.store import Database
from stepwell.store.engine.results import RelatedStep
from stepwell.store.engine.runs import LogEntry


class DirectChannel:
    """The channel of a run in a process that has the database open."""

    def __init__(self, database: Database, finisher: Finisher, claim: Claim) -> None:
        self._database = database
        self._finisher = finisher
        self.claim = claim
        self._cancelled = False
        self.is_abandoned = False

    def record(self, stage: str, response: str, children: list[dict[str, Any]]) -> bool:
        return self._finisher.record(self.claim, stage, response, children)

    def checkpoint(self, data: str) -> bool:
        return self._finisher.checkpoint(self.claim, data)

    def progress(self, done: float, total: float | None) -> None:
        self._finisher.note(self.claim, progress=(done, total))

    def log(self, level: str, message: str) -> None:
        self._finisher.note(self.claim, logs=[LogEntry(self._database.now(), level, message)])

    def cancel_requested(self) -> bool:
        return self._cancelled

    def related(self, of: int | None) -> list[RelatedStep]:
        return read_related(self._database, self.claim.step_id, of)

    def request_cancel(self) -> None:
        self._cancelled = True


def run_here(
    definition: JobDefinition[..., Any], step: RunningStep, arguments: str, *, interruptible: bool = False
) -> Ending:
    """Run a step in the calling thread; a coroutine job gets an event loop for the duration of the run."""
    run = handle(definition, step, arguments, interruptible=interruptible)
    if not definition.is_async:
        return run_without_loop(run)
    if not _is_on_a_loop():
        return _on_a_loop(run, interruptible)
    with ThreadPoolExecutor(1) as pool:  # the loop of this thread is blocked by this call
        return pool.submit(_on_a_loop, run, interruptible).result()


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _on_a_loop(run: Coroutine[Any, Any, Ending], interruptible: bool) -> Ending:
    """Like `asyncio.run`, but an exit in a task that the job started does not end the run: the job may await it."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(run)
        while True:
            try:
                return loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as error:
                if task.done() or (interruptible and isinstance(error, KeyboardInterrupt)):
                    raise
