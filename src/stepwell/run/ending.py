"""How a run ended, as plain data: what a child process sends home and what the `Finisher` writes down."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from stepwell.model.claimed import Claim

# Each is a statement in `sql/common/run.sql`; `lost` is none: somebody else holds the lease, and nothing is written.
Verb: TypeAlias = Literal[
    "finish", "retry_later", "throttle", "not_completed", "check_again", "fail", "stop", "skip", "hand_back", "rescue",
    "lost",
]  # fmt: skip


class Ending(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of one run. Values are JSON text already: a process sends them as they are stored."""

    verb: Verb
    duration: float = 0.0
    response: str | None = None  # None: keep what is recorded
    children: list[dict[str, Any]] = []
    reason: str | None = None
    error: str | None = None
    stack: str | None = None
    notify: bool = True
    stage: str | None = None  # where the next attempt begins, if compute is done
    in_: float = 0.0  # when the next attempt may begin: seconds from now, or
    at: datetime | None = None  # a moment
    limit: int = 0  # how often it may return to Pending this way


Ended: TypeAlias = tuple[Claim, Ending]
