"""Assertions about the steps that code under test has created."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from stepwell.define.definition import JobDefinition
from stepwell.model.errors import StepwellError
from stepwell.model.step import Step
from stepwell.testing.matching import matches, shown
from stepwell.workflow.steps import DeclaredStep

if TYPE_CHECKING:
    from stepwell.app import Stepwell

# A job, a step of a declared workflow, or the name of an action.
AnyJob: TypeAlias = JobDefinition[..., Any] | DeclaredStep[Any] | str

PAGE: Final = 500
MAX_SHOWN: Final = 10
FIELDS: Final = (*(field.name for field in fields(Step)), "delay")


def enqueued(app: Stepwell, job: AnyJob, arguments: Mapping[str, Any] | None = None, /, **expected: Any) -> list[Step]:
    """The steps of a job, oldest first, in whatever state they are; `assert_enqueued` explains what can be expected."""
    wanted = _Wanted.of(job, arguments, expected)
    return [step for step in all_steps(app, action=wanted.action) if wanted.includes(step)]


def assert_enqueued(
    app: Stepwell,
    job: AnyJob,
    arguments: Mapping[str, Any] | None = None,
    /,
    *,
    count: int | None = None,
    **expected: Any,
) -> list[Step]:
    """Assert that steps of a job exist: at least one, or exactly `count`; returns them, oldest first.

    `arguments` are those that matter; others may have any value, also inside of dicts. `expected` are fields of the
    step: `queue="emails"`, `priority="high"`, `state="Pending"`; `delay=60` is the time from its creation to its
    `dispatch_after`, in seconds or as a timedelta (0: none).

    >>> from stepwell import Stepwell
    >>> app = Stepwell("sqlite://")
    >>> @app.job(queue="emails")
    ... def send(to: str, subject: str = "") -> None: ...
    >>> _ = send.enqueue("ann@example.com", "Welcome")
    >>> [step] = assert_enqueued(app, send, {"to": "ann@example.com"}, queue="emails", count=1)
    >>> assert_enqueued(app, send, {"to": "bob@example.com"})
    Traceback (most recent call last):
    ...
    AssertionError: no step matches send {'to': 'bob@example.com'}; steps of send:
      step 1: Pending, queue='emails', arguments={'to': 'ann@example.com', 'subject': 'Welcome'}
    """
    wanted = _Wanted.of(job, arguments, expected)
    found = enqueued(app, job, arguments, **expected)
    if len(found) == count or (count is None and found):
        return found
    how_many = (
        "no step matches" if not found else f"{len(found)} {'step matches' if len(found) == 1 else 'steps match'}"
    )
    expectation = "" if count is None else f", expected {count}"
    raise AssertionError(f"{how_many} {wanted}{expectation}; {_there(app, wanted)}")


def refute_enqueued(app: Stepwell, job: AnyJob, arguments: Mapping[str, Any] | None = None, /, **expected: Any) -> None:
    """Assert that no such step exists."""
    found = enqueued(app, job, arguments, **expected)
    if found:
        wanted = _Wanted.of(job, arguments, expected)
        raise AssertionError(f"expected no step that matches {wanted}; found:\n{_listed(found, wanted)}")


def all_steps(app: Stepwell, **filters: Any) -> list[Step]:
    """Every step that matches, oldest first."""
    found: list[Step] = []
    while page := app.steps(limit=PAGE, before=found[-1].id if found else None, **filters):
        found += page
    return found[::-1]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What steps are compared with."""

    action: str
    arguments: Mapping[str, Any]
    expected: Mapping[str, Any]

    @classmethod
    def of(cls, job: AnyJob, arguments: Mapping[str, Any] | None, expected: Mapping[str, Any]) -> _Wanted:
        if unknown := expected.keys() - set(FIELDS):
            raise StepwellError(
                f"unknown field {', '.join(sorted(unknown))}; pass the arguments of the job in a dict; "
                f"valid fields: {', '.join(sorted(FIELDS))}"
            )
        return cls(_action_of(job), arguments or {}, expected)

    def includes(self, step: Step) -> bool:
        return matches(dict(self.arguments), step.arguments) and all(
            _field_matches(value, step, name) for name, value in self.expected.items()
        )

    def __str__(self) -> str:
        parts = [f" {dict(self.arguments)!r}"] if self.arguments else []
        return self.action + "".join([*parts, *(f", {name}={shown(value)}" for name, value in self.expected.items())])


def _action_of(job: AnyJob) -> str:
    if isinstance(job, DeclaredStep):
        return job.workflow.check().step(job.name).action
    return job.action if isinstance(job, JobDefinition) else job


def _field_matches(expected: Any, step: Step, name: str) -> bool:
    if name != "delay":
        return matches(expected, getattr(step, name))
    seconds = expected.total_seconds() if isinstance(expected, timedelta) else expected
    return bool(abs(seconds - delay_of(step)) < 0.001)  # stored times are rounded


def delay_of(step: Step) -> float:
    """The seconds from the creation of a step to the time before which it must not start."""
    return 0.0 if step.dispatch_after is None else (step.dispatch_after - step.created_at).total_seconds()


def _there(app: Stepwell, wanted: _Wanted) -> str:
    same = all_steps(app, action=wanted.action)
    if same:
        return f"steps of {wanted.action}:\n{_listed(same, wanted)}"
    others = Counter(step.action for step in all_steps(app))
    listed = ", ".join(f"{action} ({number})" for action, number in others.most_common(MAX_SHOWN))
    return f"steps of other jobs: {listed}" if others else "there are no steps at all"


def _listed(steps: list[Step], wanted: _Wanted) -> str:
    return "\n".join(_lines(steps, wanted))


def _lines(steps: list[Step], wanted: _Wanted) -> Iterator[str]:
    names = [name for name in dict.fromkeys(("queue", *wanted.expected)) if name not in ("state", "arguments")]
    for step in steps[:MAX_SHOWN]:
        parts = [f"{name}={shown(delay_of(step) if name == 'delay' else getattr(step, name))}" for name in names]
        yield f"  step {step.id}: {', '.join([str(step.state), *parts])}, arguments={step.arguments!r}"
    if len(steps) > MAX_SHOWN:
        yield f"  and {len(steps) - MAX_SHOWN} more"
