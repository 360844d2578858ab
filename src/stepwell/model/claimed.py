"""A claim: the right to run a step, with the facts of the step at that moment."""

from __future__ import annotations

import msgspec


class ClaimedStep(msgspec.Struct, array_like=True, frozen=True):
    """The facts of a step at the moment of its claim; values that its code gave are still JSON text.

    The fields are in the order of the columns that the statement `claim` returns. They travel as an array, from the
    database and on to the process that runs the step: the names of two dozen columns would cost more than their values.
    """

    id: int = 0
    uuid: str = ""
    action: str = ""
    arguments: str = "{}"
    label: str | None = None
    queue: str = ""
    group: str = ""
    priority: str = ""
    workflow_id: str = ""
    parent_step_id: int | None = None
    child_block_uuid: str | None = None
    index: int = 1
    relatable_type: str | None = None
    relatable_id: str | None = None
    attempts: int = 0
    retries: int = 0
    max_retries: int = 0
    timeout: float = 0.0
    cooldown: float = 0.0
    lease_token: int = 0
    has_children: bool | int = False  # SQLite has no truth values
    has_dependents: bool | int = False
    stage: str | None = None
    double_checks: int = 0
    checkpoint: str | None = None
    response: str | None = None  # only with a stage: what an earlier attempt has recorded
    was_open: bool | int = False  # claimed without having been dispatched by a tick

    @property
    def has_neighbours(self) -> bool:
        """Whether its end may decide something for another step."""
        return bool(self.parent_step_id is not None or self.has_dependents or self.has_children)


_UNKNOWN = ClaimedStep()


class Claim(msgspec.Struct, frozen=True):
    """The right to run a step: every later write carries its token."""

    step_id: int
    token: int
    worker: str
    step: ClaimedStep = _UNKNOWN  # of a claim whose answer was lost nothing is known

    @property
    def actor(self) -> str:
        return f"worker:{self.worker}"

    @property
    def key(self) -> tuple[int, int]:
        """No two claims have the same."""
        return self.step_id, self.token
