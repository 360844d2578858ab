"""Absurd, on PostgreSQL."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import psycopg
from absurd_sdk import Absurd
from absurdctl import BUNDLED_SCHEMA_SQL

from bench.load import IN_BULK
from bench.peers.peer import PROCESSORS, URL, Peer, mark

# Two queues, because a task must not wait for tasks of its own queue.
QUEUE, CHILDREN = "bench", "children"


def application(queue: str) -> Any:
    app = Absurd(URL, queue_name=queue)

    # The same job under the name of its queue: a task that is known is only spawned to its own queue.
    @app.register_task(name=queue, queue=queue)
    def no_op(params: Any, context: Any) -> None:
        mark()

    @app.register_task(name="chain", queue=queue)
    def chain(params: Any, context: Any) -> None:
        for number in range(params["length"]):
            context.step(f"step-{number}", mark)

    @app.register_task(name="fan_out", queue=queue)
    def fan_out(params: Any, context: Any) -> None:
        spawned = context.step("spawn", lambda: [_spawn(app, CHILDREN, CHILDREN) for _ in range(params["children"])])
        for task in spawned:
            context.await_task_result(task, queue_name=CHILDREN)
        mark()

    return app


def _spawn(app: Any, queue: str, name: str, **params: int) -> str:
    return str(app.spawn(name, params, queue=queue)["task_id"])


class TheAbsurd(Peer):
    system = "absurd"
    settings = "a process per queue and processor, concurrency=4 and poll_interval=0.25, as the page of its SDK has it"
    cannot = MappingProxyType({IN_BULK: "offers no bulk enqueue"})

    def prepare(self) -> None:
        # What `absurdctl init` does, which itself needs a psql on the machine.
        with psycopg.connect(URL) as connection:
            connection.execute(BUNDLED_SCHEMA_SQL)
        self._app = Absurd(URL, queue_name=QUEUE)
        for queue in (QUEUE, CHILDREN):
            self._app.create_queue(queue)

    def workers(self) -> Sequence[Sequence[str]]:
        start = f"from {__name__} import application; application(%r).start_worker(concurrency=4, poll_interval=0.25)"
        return [[sys.executable, "-c", start % queue] for queue in (QUEUE, CHILDREN) * PROCESSORS]

    def enqueue(self) -> None:
        _spawn(self._app, QUEUE, QUEUE)

    def start_chains(self, count: int, length: int) -> None:
        for _ in range(count):
            _spawn(self._app, QUEUE, "chain", length=length)

    def fan_out(self, children: int) -> None:
        _spawn(self._app, QUEUE, "fan_out", children=children)


PEER = TheAbsurd()
