"""PgQueuer, on PostgreSQL."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from bench.load import CHAINS, FAN_OUT
from bench.peers.peer import PROCESSORS, URL, Peer, mark


async def work() -> None:
    queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(URL)))

    @queue.entrypoint("no_op")
    async def no_op(job: Any) -> None:
        mark()

    await queue.run(batch_size=25)


class Pgqueuer(Peer):
    system = "pgqueuer"
    settings = (
        "a worker per processor, asyncpg, durable tables (its default), batch_size=25 as its page on tuning has it"
    )
    cannot = MappingProxyType({CHAINS: "offers no chains", FAN_OUT: "offers no join"})

    def prepare(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._queries = Queries(AsyncpgDriver(self._loop.run_until_complete(asyncpg.connect(URL))))
        self._loop.run_until_complete(self._queries.install())

    def workers(self) -> Sequence[Sequence[str]]:
        # What `pgq run` does, uvloop included; that program itself stumbles over its own --log-level in this release.
        start = f"import uvloop; from {__name__} import work; uvloop.run(work())"
        return [[sys.executable, "-c", start]] * PROCESSORS

    def enqueue(self) -> None:
        self._loop.run_until_complete(self._queries.enqueue("no_op", None))

    def enqueue_many(self, count: int) -> None:
        self._loop.run_until_complete(self._queries.enqueue(["no_op"] * count, [None] * count, [0] * count))


PEER = Pgqueuer()
