"""How a run ended, as plain data: what a child process sends to its worker, and what the `Finisher` writes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from stepwell.model.claimed import Claim

# Each is a verb of `store/engine/runs.py`, except `lost`: the run no longer holds the lease, and nothing is written.
Verb: TypeAlias = Literal[
    "finish", "retry_later", "throttle", "not_completed", "check_again", "fail", "stop", "skip", "hand_back", "rescue",
    "run_again", "lost",
]  # fmt: skip


class Ending(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of one run. Values are already JSON text: a process sends them as they are stored."""

    verb: Verb
    duration: float = 0.0
    response: str | None = None  # None: leave what is recorded
    children: list[dict[str, Any]] = []
    reason: str | None = None
    error: str | None = None
    stack: str | None = None
    notify: bool = True
    stage: str | None = None  # where the next attempt starts, if compute is done
    in_: float = 0.0  # when the next attempt may start: seconds from now, or
    at: datetime | None = None  # a point in time
    limit: int = 0  # how many times the step may return to Pending for this reason
    cut: bool = False  # it was ended from outside, at its timeout


Ended: TypeAlias = tuple[Claim, Ending]
