"""Stepwell itself, in the environment that runs the benchmark: measured like any other."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from bench.peers.peer import DATABASE, PROCESSORS, URL, Peer, mark
from stepwell import NewStep, Stepwell, current_step

EXECUTOR: Final = os.environ.get("BENCH_EXECUTOR", "thread")
WORKERS: Final = int(os.environ.get("BENCH_WORKERS", "1"))
# Short work wants more slots than run at once: the next steps are at hand while the last ones are written down.
SLOTS: Final = {"thread": 64, "async": 128, "process": PROCESSORS}
# What is measured is the engine: `up` alone would start a dashboard in the first second of the drain. Former editions,
# which `bench.pairs` measures too, had none.
ENGINE_ONLY: Final = ("--no-web",) if find_spec("stepwell.web") else ()

app = Stepwell(f"sqlite:///{URL}" if DATABASE == "sqlite" else URL or "sqlite://")


@app.job()
def no_op() -> None:
    mark()


@app.job()
async def async_no_op() -> None:
    mark()


@app.job()
def fan_out(children: int) -> None:
    current_step().children([JOB.draft() for _ in range(children)], JOB.draft())


JOB: Final = async_no_op if EXECUTOR == "async" else no_op


class Own(Peer):
    system = f"stepwell, {EXECUTOR} × {WORKERS}"
    settings = f"{SLOTS[EXECUTOR]} slots each"

    def prepare(self) -> None:
        if hasattr(app, "open"):  # `bench.pairs` runs this module with former editions too, which open themselves
            app.open()

    def workers(self) -> Sequence[Sequence[str]]:
        how = ["--app", f"{__name__}:app", "--executor", EXECUTOR, "--slots", str(SLOTS[EXECUTOR])]
        roles = [["up", *ENGINE_ONLY], *(["worker"] for _ in range(WORKERS - 1))]
        return [[sys.executable, "-m", "stepwell.cli", *role, *how] for role in roles]

    def enqueue(self) -> None:
        JOB.enqueue()

    def enqueue_many(self, count: int) -> None:
        app.enqueue_many(JOB.draft() for _ in range(count))

    def start_chains(self, count: int, length: int) -> None:
        blocks = [str(uuid.uuid4()) for _ in range(count)]
        drafts: list[NewStep] = []
        for index in range(1, length + 1):
            drafts += [JOB.options(block=block, index=index).draft() for block in blocks]
        app.enqueue_many(drafts)

    def fan_out(self, children: int) -> None:
        fan_out.enqueue(children)


PEER = Own()
