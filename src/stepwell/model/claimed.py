"""A claim: the right to run a step, with the step's columns at that moment."""

from __future__ import annotations

import math

import msgspec

from stepwell.model.actors import worker_actor
from stepwell.model.clock import since_boot


class ClaimedStep(msgspec.Struct, array_like=True, frozen=True):
    """The columns of a step when it was claimed; values given by user code are still JSON text.

    The fields are in the order of the columns that the statement `claim` returns. They are sent as an array, from the
    database to the process that runs the step: two dozen column names would cost more than the values.
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
    has_children: bool | int = False  # SQLite has no booleans
    has_dependents: bool | int = False
    stage: str | None = None
    double_checks: int = 0
    checkpoint: str | None = None
    response: str | None = None  # only with a stage: recorded by an earlier attempt
    was_open: bool | int = False  # claimed without having been dispatched by a tick
    begun: bool | int = True  # false: claimed ahead, and not on record as begun
    belongs_to: str | None = None  # the feature that follows its changes
    kind: str = "job"
    template: str | None = None  # the name of its step in the template
    element: int | None = None
    hostname: str | None = None
    is_throttled: bool | int = False  # when it was claimed

    @property
    def has_neighbours(self) -> bool:
        """Whether its end may affect another step."""
        return bool(self.parent_step_id is not None or self.has_dependents or self.has_children)


_UNKNOWN = ClaimedStep()


class Claim(msgspec.Struct, frozen=True):
    """The right to run a step: every later write carries its token."""

    step_id: int
    token: int
    worker: str
    step: ClaimedStep = _UNKNOWN  # unknown if the response to the claim was lost
    begin_before: float = math.inf  # by `since_boot`: when the lease expires, unless another heartbeat is written

    def may_begin(self) -> bool:
        """Whether it is certain that no other worker has the step. A process that was suspended cannot know more."""
        return since_boot() < self.begin_before

    @property
    def actor(self) -> str:
        return worker_actor(self.worker)

    @property
    def key(self) -> tuple[int, int]:
        """Unique to the claim."""
        return self.step_id, self.token
