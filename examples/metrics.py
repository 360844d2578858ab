"""Metrics of a small shop, kept by a subscriber: runs and their durations by action, workflows by how they settled.

The subscriber is an object: its methods are called in one thread of its own, so it needs no locks for what it counts.
`text` is what a Prometheus server reads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from stepwell import Permanent, Stepwell
from stepwell.events import StepChanged, StepCompleted, TaskFinalizationStarted, on

app = Stepwell("sqlite:///metrics.db")
checkout = app.workflows("shop").workflow("checkout", context={"properties": {"cents": {"type": "integer"}}})


@checkout.step
def charge(cents: int) -> int:
    if cents <= 0:
        raise Permanent("nothing to charge")
    return cents


@checkout.step
def ship(charge: int) -> str:
    return f"a parcel worth {charge} cents"


class Metrics:
    def __init__(self) -> None:
        self.changes: Counter[tuple[str, str]] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.workflows: Counter[tuple[str, str]] = Counter()

    @on(StepChanged)
    def count(self, event: StepChanged) -> None:
        self.changes[event.action, event.to_state] += 1

    @on(StepCompleted)
    def measure(self, event: StepCompleted) -> None:
        self.seconds[event.action] += event.duration or 0.0

    @on(TaskFinalizationStarted)
    def settled(self, event: TaskFinalizationStarted) -> None:
        self.workflows[event.context.name, event.context.execution_status] += 1

    def text(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for (action, state), count in sorted(self.changes.items()):
            yield f'steps_total{{action="{action}",state="{state}"}} {count}'
        for action, seconds in sorted(self.seconds.items()):
            yield f'step_seconds_total{{action="{action}"}} {seconds:.6f}'
        for (name, status), count in sorted(self.workflows.items()):
            yield f'workflows_settled_total{{name="{name}",status="{status}"}} {count}'


metrics = app.events.subscribe(Metrics())
