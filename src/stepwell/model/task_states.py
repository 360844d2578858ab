"""The states of a task of a main process, which follow from its step: there is no second state machine.

```text
           QUEUE                                 RESCHEDULE
            |        +------------------------------+--------------+
            v        v                              |              |
  QUEUE -> new ---EXECUTE---> running --time--> dead (virtual)     |
            ^                    +-----EXECUTE------> not_completed
            |                    +-----EXECUTE------> error ------+
            |                    +-----EXECUTE------> completed --+
            +------------------------QUEUE------------------------+
```

Two of them are more than a state of the step. dead: Running under a lease that is not alive; the database still says
Running. not_completed: Pending with that reason, until the reschedule beat clears it. The macro `@task_state` writes
this out in SQL, and everything that asks for the state of a task uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from stepwell.model.states import State

TaskState: TypeAlias = Literal["new", "running", "dead", "not_completed", "error", "completed"]

TASK_STATES: Final[Mapping[State, TaskState]] = MappingProxyType({
    State.PENDING: "new",
    State.DISPATCHED: "new",
    State.RUNNING: "running",
    State.COMPLETED: "completed",
    State.SKIPPED: "completed",
    State.FAILED: "error",
    State.STOPPED: "error",
    State.CANCELLED: "error",
    State.NOT_RUNNABLE: "error",
})  # fmt: skip
