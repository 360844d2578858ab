"""A main process that is about to be queued, and who supplies it: the queuer, and the factory that makes its tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from stepwell.define.definition import JobDefinition
from stepwell.define.drafts import NewStep
from stepwell.define.registry import Registry
from stepwell.model.errors import UnknownAction
from stepwell.model.suggest import hint
from stepwell.processes.config import ProcessConfig
from stepwell.processes.config.items import MainProcessConfig


@runtime_checkable
class TaskFactory(Protocol):
    """Makes the tasks of main processes."""

    def create(self, task_class: str) -> JobDefinition[..., Any] | NewStep:
        """The job that runs a task of this class, or a draft of it with arguments: `sync.draft(days=7)`."""
        ...


@dataclass(frozen=True, slots=True)
class JobFactory:
    """The default: a class is the name of a job.

    >>> from stepwell import Stepwell
    >>> app = Stepwell("sqlite://")
    >>> @app.job()
    ... def sync() -> None: ...
    >>> JobFactory(app.jobs).create("sync") is sync
    True
    """

    jobs: Registry

    def create(self, task_class: str) -> JobDefinition[..., Any]:
        job = self.jobs.get(task_class)
        if job is None:
            meant = hint(task_class, sorted(self.jobs.actions()), "jobs")
            raise UnknownAction(f"no job {task_class!r} is registered with this app; {meant}")
        return job


@dataclass(frozen=True, slots=True, eq=False)
class MainProcess:
    """One queueing of a main process. `data` is the queuer's own; its callbacks can read it."""

    config: ProcessConfig
    process: MainProcessConfig
    task_factory: TaskFactory
    data: Any = None

    @classmethod
    def create(cls, config: ProcessConfig, task_factory: TaskFactory, name: str, data: Any = None) -> Self:
        """The main process with this key or name."""
        return cls(config, config.main_process(name), task_factory, data)

    @property
    def key(self) -> str:
        return self.process.key

    @property
    def name(self) -> str:
        return self.process.name


@runtime_checkable
class Queuer(Protocol):
    """Says which main processes to queue, and is notified of each. Its errors affect no other main process."""

    def get_next_main_processes(self) -> Iterable[MainProcess]:
        """The main processes to queue now, made with `MainProcess.create`. Called by every beat."""
        ...

    def queueing_start(self, main_process: MainProcess) -> bool | None:
        """It is about to be queued. If this returns False, it is not."""
        ...

    def queueing_stop(self, main_process: MainProcess) -> bool | None:
        """It was queued."""
        ...

    def queueing_failed(self, main_process: MainProcess, error: Exception) -> None:
        """It was not queued: `TaskStateError` if the state of a task does not allow it now, or any other error."""
        ...
