"""What the demo shows, each claim checked against the database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from stepwell import State, Step
from stepwell.demo.story import IMAGES, Story

# How steps must end, if not Completed.
_OTHER_ENDS = {
    "price import": State.FAILED,
    "read the file": State.FAILED,
    "load the prices": State.NOT_RUNNABLE,
    "new search index": State.CANCELLED,
    "switch at a quiet hour": State.CANCELLED,
    "delete the old index": State.CANCELLED,
}
_STEPS = 8 + 1 + 5 + 4 + 1 + IMAGES + 1 + 1 + 5


def claims(story: Story) -> Iterator[tuple[bool, str]]:
    """Every claim, and whether it holds."""
    steps = [step for root in story.roots for step in story.of(root)]
    named = {step.name: step for step in steps}
    try:
        yield from _claims(story, steps, named)
    except (KeyError, AssertionError) as missing:
        yield False, f"something expected did not happen: {missing}"


def _claims(story: Story, steps: list[Step], named: dict[str, Step]) -> Iterator[tuple[bool, str]]:
    wrong = [f"{s.name} is {s.state}" for s in steps if s.state is not _OTHER_ENDS.get(s.name, State.COMPLETED)]
    yield (
        not wrong and len(steps) == _STEPS,
        f"all {len(steps)} steps ended as expected" + (f", except: {', '.join(wrong)}" if wrong else ""),
    )
    fetches = [named[f"fetch {what}"] for what in ("orders", "customers", "prices")]
    yield (
        max(map(_ended, fetches)) <= _started(named["clean the data"])
        and _ended(named["write the chapters"]) <= _started(named["send the report"])
        and _ended(named["chapter on stock"]) <= _ended(named["write the chapters"]),
        "order: first the three fetches, then the cleaning, the chapters, the report",
    )
    yield (
        named["fetch prices"].attempts == 3 and named["fetch prices"].retries == 2,
        "retry: `fetch prices` failed twice, waited, and succeeded on the third attempt",
    )
    yield (
        _started(named["tell the buyer"]) >= _ended(named["read the file"]),
        "failure: its handler ran, the next step is not runnable, the parent failed",
    )
    yield (
        named["new search index"].actor == "operator:ann"
        and named["delete the old index"].reason == "parent_cancelled"
        and named["switch at a quiet hour"].attempts == 0,
        "cancel: ann cancelled the new search index and with it its unfinished children",
    )
    last_image = max(_started(step) for step in story.below("product images"))
    yield (
        named["password mail"].created_at > named["image 1"].created_at
        and _started(named["password mail"]) < last_image,
        "priority: the password mail was enqueued last and ran before the last images",
    )
    yield (
        _started(named["reminder"]) >= _due(named["reminder"]),
        "delay: the reminder did not run before it was due",
    )
    yield (
        _ended(named["build"]) <= min(_started(named["test on Linux"]), _started(named["test on macOS"]))
        and max(_ended(named["test on Linux"]), _ended(named["test on macOS"])) <= _started(named["publish"]),
        "graph: the tests waited for the build, `publish` for both tests",
    )
    violations = story.app.check_invariants()
    yield (
        not violations,
        "invariants OK" if not violations else "; ".join(map(str, violations)),
    )


def _started(step: Step) -> datetime:
    assert step.started_at is not None, f"{step.name} did not start"
    return step.started_at


def _ended(step: Step) -> datetime:
    assert step.completed_at is not None, f"{step.name} did not end"
    return step.completed_at


def _due(step: Step) -> datetime:
    assert step.dispatch_after is not None, f"{step.name} has no delay"
    return step.dispatch_after
