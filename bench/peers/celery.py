"""Celery, on Redis."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from celery import Celery, chain, chord

from bench.load import IN_BULK
from bench.peers.peer import URL, Peer, mark, program

app = Celery("bench", broker=URL, backend=URL)
# acks_late: else a job that was taken dies with its worker. Prefetching 64 is its own advice for many short jobs.
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=64, broker_connection_retry_on_startup=True)


@app.task(name="no_op", ignore_result=True)
def no_op() -> None:
    mark()


# The header of a chord must keep its results: the join is counted by them.
@app.task(name="child")
def child() -> None:
    mark()


@app.task(name="join", ignore_result=True)
def join(results: Any) -> None:
    mark()


class TheCelery(Peer):
    system = "celery"
    settings = "prefork with a child per processor (its default), acks_late, prefetch 64"
    cannot = MappingProxyType({IN_BULK: "offers no bulk enqueue: a group is sent one task at a time"})

    def prepare(self) -> None:
        pass

    def workers(self) -> Sequence[Sequence[str]]:
        return [[program("celery"), "-A", f"{__name__}:app", "worker", "--loglevel=ERROR"]]

    def enqueue(self) -> None:
        no_op.delay()

    def start_chains(self, count: int, length: int) -> None:
        for _ in range(count):
            chain(*(no_op.si() for _ in range(length))).apply_async()

    def fan_out(self, children: int) -> None:
        chord((child.si() for _ in range(children)), join.s()).apply_async()


PEER = TheCelery()
