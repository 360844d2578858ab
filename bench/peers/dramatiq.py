"""Dramatiq, on Redis."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import dramatiq
from dramatiq import group, pipeline
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits.backends import RedisBackend

from bench.load import IN_BULK
from bench.peers.peer import URL, Peer, mark, program

broker = RedisBroker(url=URL)
broker.add_middleware(GroupCallbacks(RedisBackend(url=URL)))
dramatiq.set_broker(broker)


@dramatiq.actor
def no_op() -> None:
    mark()


class TheDramatiq(Peer):
    system = "dramatiq"
    settings = "a process per processor with 8 threads each (its defaults)"
    cannot = MappingProxyType({IN_BULK: "offers no bulk enqueue: a group is sent one message at a time"})

    def prepare(self) -> None:
        broker.flush_all()

    def workers(self) -> Sequence[Sequence[str]]:
        return [[program("dramatiq"), __name__]]

    def enqueue(self) -> None:
        no_op.send()

    def start_chains(self, count: int, length: int) -> None:
        for _ in range(count):
            pipeline([no_op.message_with_options(pipe_ignore=True) for _ in range(length)]).run()

    def fan_out(self, children: int) -> None:
        jobs = group([no_op.message() for _ in range(children)])
        jobs.add_completion_callback(no_op.message())
        jobs.run()


PEER = TheDramatiq()
