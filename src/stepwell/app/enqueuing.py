"""Creating steps: the methods of `Stepwell` that return handles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, TypeVar

from stepwell.app.acting import Acting
from stepwell.app.looking import AnyStep
from stepwell.define.definition import JobDefinition
from stepwell.define.drafts import NewStep, all_drafts
from stepwell.define.registry import Registry
from stepwell.enqueue.create import Creator
from stepwell.enqueue.handle import Handle
from stepwell.model.actors import by_hand
from stepwell.model.errors import InvalidStep
from stepwell.run.current import RunningSteps
from stepwell.store.on_loop import without_blocking

R = TypeVar("R")


class Enqueuing(Acting):
    """A part of `Stepwell`."""

    jobs: Registry

    @property
    @abstractmethod
    def running_steps(self) -> RunningSteps: ...

    @property
    @abstractmethod
    def _creator(self) -> Creator: ...

    def enqueue(
        self,
        action: str,
        arguments: Any = None,
        *,
        connection: Any = None,
        who: str | None = None,
        why: str | None = None,
        **settings: Any,
    ) -> Handle[Any]:
        """Create one step; `settings` are the fields of `NewStep`.

        If a job of this app has this action, its settings apply and the arguments are checked, as in the job's own
        `enqueue`; any other action is accepted, because another program may run it. With `connection`, a connection of
        `sqlite3` or `psycopg`, or one of SQLAlchemy or Django that uses them, the step is committed or rolled back with
        the caller's transaction. With `who`, a person creates it by hand: it is recorded as an operation, with `why`.
        """
        draft = self.jobs.draft(action, {} if arguments is None else arguments, settings)
        by = by_hand(who, why, self.database.now)
        if by is None:
            return self.enqueue_many([draft], connection=connection)[0]
        if connection is not None:
            raise InvalidStep("what is recorded with `who` is a transaction of its own: omit `connection`")
        return Handle(self.actions.enqueue(draft, by), self, self.jobs.get(draft.action))

    async def aenqueue(
        self, action: str, arguments: Any = None, *, connection: Any = None, **settings: Any
    ) -> Handle[Any]:
        """The same without blocking an event loop; `connection` may be async."""
        draft = self.jobs.draft(action, {} if arguments is None else arguments, settings)
        return (await self.aenqueue_many([draft], connection=connection))[0]

    def enqueue_job(self, job: JobDefinition[..., R], draft: NewStep) -> Handle[R]:
        """Create one step of a job: what `job.enqueue(…)` does."""
        return self.enqueue_many([draft], connection=job.connection)[0]

    def enqueue_many(self, drafts: Iterable[NewStep], *, connection: Any = None) -> list[Handle[Any]]:
        """Create many steps at once, all or none; they may be each other's parents and dependencies.

        A `NewStep` of a job of this app is treated as in `enqueue`: the arguments are checked, and the job's settings
        apply to fields that are left at their defaults. Children of the running step that calls this are part of its
        result: they are written when its compute ends.
        """
        drafts = [self.jobs.redraft(draft) for draft in all_drafts("enqueue_many", drafts)]
        running = self.running_steps.parent_of(drafts)
        if running is None:
            refs = self._creator.create(drafts, self.database.now(), connection)
        elif connection is None:
            refs = running.add_children(drafts)
        else:
            raise InvalidStep("children of the running step are written when its compute ends: omit `connection`")
        return [Handle(ref, self, self.jobs.get(draft.action)) for ref, draft in zip(refs, drafts, strict=True)]

    async def aenqueue_many(self, drafts: Iterable[NewStep], *, connection: Any = None) -> list[Handle[Any]]:
        """The same without blocking an event loop; `connection` may be async."""
        drafts = all_drafts("aenqueue_many", drafts)
        return await without_blocking(connection, lambda usable: self.enqueue_many(drafts, connection=usable))

    def handle(self, which: AnyStep) -> Handle[Any]:
        """A step that exists, by its id or uuid: to wait for its result, to cancel or to retry it."""
        step = self.step(which)
        return Handle(step.ref, self, self.jobs.get(step.action))
