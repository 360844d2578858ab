"""Handling messages from children: requests are answered from the database, progress and logs are buffered."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from stepwell.model.claimed import Claim
from stepwell.model.errors import DatabaseBusy, DatabaseUnavailable, InvalidStep
from stepwell.run.ending import Ended
from stepwell.run.executors.inbox import Message
from stepwell.run.executors.pipe import send
from stepwell.run.executors.slot import Slot
from stepwell.run.finish import Finisher
from stepwell.run.results import read_related
from stepwell.store import Database
from stepwell.store.engine.runs import LogEntry

_LOGGER: Final = logging.getLogger("stepwell.worker")

# During an outage, requests of children are not retried in every round: each attempt can take as long as a connection
# timeout. Real time, for the same reason.
RETRY_SECONDS: Final = 1.0


class MessageHandler:
    """Handles the messages of all slots of one executor."""

    def __init__(self, database: Database, finisher: Finisher, app_name: str) -> None:
        self._database = database
        self._finisher = finisher
        self._app_name = app_name
        self._retry_at = 0.0
        self._broken = ""  # the last logged reason why children cannot import the app

    def receive(self, slot: Slot) -> Iterator[Ended]:
        """Handle what has arrived. Raises errors of the pipe and of its content, but not DatabaseUnavailable."""
        try:
            if slot.request is not None:
                self._reply(slot, slot.request)
            if slot.process is not None:
                for message in slot.inbox.messages():
                    if (ended := self._handle(slot, message)) is not None:
                        yield ended
        except DatabaseUnavailable:
            self._retry_at = time.monotonic() + RETRY_SECONDS

    def _handle(self, slot: Slot, message: Message) -> Ended | None:
        match message.kind:
            case "ended":
                return self._end(slot, message)
            case "ready":
                slot.mark_ready()
            case "broken":
                if message.error != self._broken:
                    self._broken = message.error
                    _LOGGER.error("a slot cannot import the app %s: %s", self._app_name, message.error)
            case "progress":
                slot.notes.progress = (message.done, message.total)
            case "log":
                at = self._database.now()
                slot.notes.logs.append(LogEntry(at, message.level, message.text))
            case "record" | "checkpoint" | "related":
                self._reply(slot, message)
        return None

    def _end(self, slot: Slot, message: Message) -> Ended | None:
        claim = slot.queue.claim
        if claim is None or message.ending is None or message.number != slot.queue.runs[0][0]:
            return None
        with suppress(DatabaseUnavailable):  # its last progress and logs are not worth a wait
            self.write_notes(slot)
        slot.advance()
        return claim, message.ending

    def _reply(self, slot: Slot, request: Message) -> None:
        """The child blocks until it gets the reply; during an outage the next round tries again."""
        slot.request = request
        claim = slot.queue.claim
        if claim is None or time.monotonic() < self._retry_at:
            return
        reply = self._reply_to(request, claim)
        slot.request = None
        send(slot.connection, reply)

    def _reply_to(self, request: Message, claim: Claim) -> dict[str, Any]:
        try:
            if request.kind == "checkpoint":
                return {"ok": self._finisher.checkpoint(claim, request.data)}
            if request.kind == "related":
                return {"related": read_related(self._database, claim.step_id, request.of)}
            return {"ok": self._finisher.record(claim, request.stage, request.response, request.children)}
        except InvalidStep as error:
            return {"refused": str(error)}
        except DatabaseBusy as error:
            if request.kind == "record":
                raise  # the work is done: retried until that is stored
            return {"busy": str(error)}  # the lock may be held by the job itself, which waits for this reply

    def write_notes(self, slot: Slot) -> None:
        slot.notes.write(self._finisher, slot.queue.claim)
