"""Procrastinate, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from procrastinate import App, PsycopgConnector

from bench.load import CHAINS, FAN_OUT
from bench.peers.peer import PROCESSORS, URL, Peer, mark, program

app = App(connector=PsycopgConnector(conninfo=URL))


@app.task(name="no_op")
async def no_op() -> None:
    mark()


class Procrastinate(Peer):
    system = "procrastinate"
    settings = "a worker per processor, --concurrency=30 as its page on concurrency has it, async job"
    cannot = MappingProxyType({CHAINS: "offers no chains", FAN_OUT: "offers no join"})

    def prepare(self) -> None:
        app.open()
        app.schema_manager.apply_schema()

    def workers(self) -> Sequence[Sequence[str]]:
        return [[program("procrastinate"), "--app", f"{__name__}.app", "worker", "--concurrency=30"]] * PROCESSORS

    def enqueue(self) -> None:
        no_op.defer()

    def enqueue_many(self, count: int) -> None:
        no_op.batch_defer(*({} for _ in range(count)))


PEER = Procrastinate()
