"""The queues that an app declares: itself, and in the settings of its jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepwell.define.registry import Registry
from stepwell.model.errors import StepwellError
from stepwell.store import Database
from stepwell.store.engine import creation


class DeclaredQueues:
    """Calling it returns the current names, because jobs may be registered at any time."""

    def __init__(self, queues: Iterable[str], jobs: Registry) -> None:
        self._named = _checked(queues)
        self._jobs = jobs

    def __call__(self) -> frozenset[str]:
        by_jobs = (job.settings.get("queue") for job in self._jobs)
        return self._named.union(queue for queue in by_jobs if isinstance(queue, str) and queue)

    def add(self, queues: Iterable[str]) -> None:
        """More queues, named by the configuration. They are created when the database is opened."""
        self._named |= _checked(queues)

    def create(self, database: Database) -> None:
        """Create those that the app itself declares; the queues of jobs are created with their first step."""
        if not self._named:
            return
        if new := self._named.difference(database.read(creation.queue_names)):
            database.transact(lambda tx: [creation.add_queue(tx, name=queue) for queue in sorted(new)])


def _checked(queues: Iterable[str]) -> frozenset[str]:
    names: list[Any] = [queues] if isinstance(queues, str) else list(queues)
    for name in names:
        if not isinstance(name, str) or not name:
            raise StepwellError(f"{name!r} is not the name of a queue: pass, for example, queues=['emails']")
    return frozenset(names)
