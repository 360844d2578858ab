"""DBOS, on PostgreSQL."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from types import MappingProxyType

from dbos import DBOS, DBOSClient

from bench.load import IN_BULK
from bench.peers.peer import URL, Peer, mark

QUEUE = "bench"


@DBOS.workflow(name="no_op")
def no_op() -> None:
    mark()


@DBOS.step()
def step() -> None:
    mark()


@DBOS.workflow(name="chain")
def chain(length: int) -> None:
    for _ in range(length):
        step()


@DBOS.workflow(name="fan_out")
def fan_out(children: int) -> None:
    handles = [DBOS.enqueue_workflow(QUEUE, no_op) for _ in range(children)]
    for handle in handles:
        handle.get_result()
    mark()


def launch() -> None:
    DBOS(config={"name": "bench", "system_database_url": URL, "log_level": "ERROR"})
    DBOS.launch()
    DBOS.register_queue(QUEUE)


class Dbos(Peer):
    system = "dbos"
    settings = "one process, a queue with its defaults (no limit of concurrency, polling each second)"
    cannot = MappingProxyType({IN_BULK: "offers no bulk enqueue of workflows"})

    def prepare(self) -> None:
        # Only a launched application makes the tables; the client of another process enqueues, as its docs have it.
        launch()
        DBOS.destroy()
        self._client = DBOSClient(system_database_url=URL, application_name="bench")

    def workers(self) -> Sequence[Sequence[str]]:
        return [[sys.executable, "-c", f"from {__name__} import work; work()"]]

    def enqueue(self) -> None:
        self._client.enqueue({"workflow_name": "no_op", "queue_name": QUEUE})

    def start_chains(self, count: int, length: int) -> None:
        for _ in range(count):
            self._client.enqueue({"workflow_name": "chain", "queue_name": QUEUE}, length)

    def fan_out(self, children: int) -> None:
        self._client.enqueue({"workflow_name": "fan_out", "queue_name": QUEUE}, children)


def work() -> None:
    launch()
    threading.Event().wait()


PEER = Dbos()
