"""Huey, on SQLite or Redis."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from huey import RedisHuey, SqliteHuey, chord

from bench.load import IN_BULK
from bench.peers.peer import DATABASE, URL, Peer, mark, program

# `fsync=True`: without it a commit is lost with the power. `blocking` is RedisHuey's own default: no polling.
huey = SqliteHuey(filename=URL, fsync=True) if DATABASE == "sqlite" else RedisHuey("bench", url=URL)


@huey.task()
def no_op(*_: Any) -> None:
    mark()


class Huey(Peer):
    system = "huey"
    settings = "4 worker processes, " + ("fsync=True, polling from 0.1 s" if DATABASE == "sqlite" else "blocking pop")
    cannot = MappingProxyType({IN_BULK: "offers no bulk enqueue: a group is sent one task at a time"})

    def prepare(self) -> None:
        huey.flush()

    def workers(self) -> Sequence[Sequence[str]]:
        return [[program("huey_consumer"), "bench.peers.huey.huey", "-k", "process", "-w", "4", "-q"]]

    def enqueue(self) -> None:
        no_op()

    def start_chains(self, count: int, length: int) -> None:
        for _ in range(count):
            pipeline = no_op.s()
            for _ in range(length - 1):
                pipeline = pipeline.then(no_op)
            huey.enqueue(pipeline)

    def fan_out(self, children: int) -> None:
        huey.enqueue(chord([no_op.s() for _ in range(children)], no_op.s()))


PEER = Huey()
