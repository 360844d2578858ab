"""Showing the demo: a live view on a terminal, one line per event elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from stepwell import State, Step, Transition
from stepwell.cli.output import Output, Span
from stepwell.cli.text import shorten
from stepwell.demo.story import Story
from stepwell.look.palette import SIGNS, STYLES
from stepwell.model.actors import is_operator, person_of
from stepwell.model.redaction import shown_url

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

EVENTS_SHOWN: Final = 9
_LEGEND: Final = {
    State.COMPLETED: "done", State.RUNNING: "running", State.DISPATCHED: "dispatched", State.PENDING: "pending",
    State.FAILED: "failed", State.CANCELLED: "cancelled", State.NOT_RUNNABLE: "not runnable",
}  # fmt: skip

_REASONS: Final = {
    "waiting_for_children": "waits for its children",
    "children_concluded": "its children have concluded",
    "children_failed": "not all of its children concluded",
    "promoted": "exception handler, needed now",
    "predecessor_failed": "an earlier step failed",
    "parent_cancelled": "with its parent",
}


class Screen(Protocol):
    """Shows what has happened since the last update."""

    def update(self) -> None: ...


@contextmanager
def screen_for(output: Output, story: Story, workers: int) -> Iterator[Screen]:
    """The screen for this kind of output."""
    if output.rich is None:
        output.line(f"Stepwell demo: {workers} workers, one dispatcher, {shown_url(story.app.database.url)}")
        yield _Lines(output, story)
        return
    from rich.live import Live

    with Live(console=output.rich, auto_refresh=False, transient=True) as live:
        yield _LiveView(live, story, workers)


class _Events:
    """What has changed since the last call, from the history of every step."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._seen: dict[int, datetime] = {}
        self._last_ids: dict[int, int] = {}  # per step: of two steps, the earlier number may be committed later
        self._began: datetime | None = None
        self.steps: dict[str, list[Step]] = {}

    def look(self) -> list[tuple[float, Step, Transition]]:
        fresh: list[tuple[Step, Transition]] = []
        for root in self._story.roots:
            self.steps[root] = self._story.of(root)
            for step in self.steps[root]:
                if self._seen.get(step.id) != step.updated_at:
                    self._seen[step.id] = step.updated_at
                    last = self._last_ids.get(step.id, 0)
                    changes = [change for change in self._story.app.history(step) if change.id > last]
                    fresh += [(step, change) for change in changes]
                    self._last_ids[step.id] = changes[-1].id if changes else last
        if not fresh:
            return []
        fresh.sort(key=lambda pair: pair[1].id)
        began = self._began = self._began or fresh[0][1].at
        return [((change.at - began).total_seconds(), step, change) for step, change in fresh]


def _is_shown(change: Transition) -> bool:
    """Neither creation nor dispatch: only what a user cares about."""
    return change.from_state is not None and change.to_state is not State.DISPATCHED


def _event_line(seconds: float, step: Step, change: Transition, width: int) -> list[Span]:
    state = change.to_state
    reason = change.reason or ""
    why = change.error or _REASONS.get(reason, reason.replace("_", " "))
    if state is State.PENDING and change.reason == "retry":
        why = f"retrying soon: {why}"
    if state is State.CANCELLED and is_operator(change.actor):
        why = f"by {person_of(change.actor)}: {why.removeprefix('operator: ')}"
    return [
        (f"{seconds:5.1f} s  ", "bright_black"),
        (f"{SIGNS[state]} ", STYLES[state]),
        shorten(step.name, 24).ljust(24),
        (str(state).ljust(12), STYLES[state]),
        (shorten(why, width - 48), "dim"),
    ]


class _Lines:
    def __init__(self, output: Output, story: Story) -> None:
        self._output = output
        self._events = _Events(story)

    def update(self) -> None:
        for seconds, step, change in self._events.look():
            if _is_shown(change) and change.to_state is not State.RUNNING:
                self._output.line(*_event_line(seconds, step, change, 120))


class _LiveView:
    def __init__(self, live: Live, story: Story, workers: int) -> None:
        self._live = live
        self._story = story
        self._workers = workers
        self._events = _Events(story)
        self._lines: deque[list[Span]] = deque(maxlen=EVENTS_SHOWN)
        self._began = story.app.clock.monotonic()

    def update(self) -> None:
        for seconds, step, change in self._events.look():
            if _is_shown(change):
                self._lines.append(_event_line(seconds, step, change, self._live.console.width))
        self._live.update(self._picture(), refresh=True)

    def _picture(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True, overflow="ellipsis", style="bright_black")
        for root, steps in self._events.steps.items():
            signs = Text.assemble(*((SIGNS[step.state], STYLES[step.state]) for step in steps))
            grid.add_row(Text(root, style="bold"), signs, _current(steps))
        elapsed = self._story.app.clock.monotonic() - self._began
        title = Text.assemble(
            ("Stepwell demo", "bold"),
            (f"  {elapsed:4.1f} s · {self._workers} workers · one dispatcher", "bright_black"),
        )
        legend = Text(" ").join(
            Text.assemble((SIGNS[state], STYLES[state]), (f" {word}", "bright_black"))
            for state, word in _LEGEND.items()
        )
        lines = [Text.assemble(*line, no_wrap=True, overflow="ellipsis") for line in self._lines]
        blank = [Text("")] * (EVENTS_SHOWN - len(lines))
        return Group(title, Text(""), grid, Text(""), *lines, *blank, Text(""), legend)


def _current(steps: list[Step]) -> str:
    running = [step.name for step in steps if step.state is State.RUNNING and step.lease_worker is not None]
    if running:
        return ", ".join(running)
    waiting = [step for step in steps if step.state is State.PENDING and step.dispatch_after is not None]
    if waiting and waiting[0].attempts == 0:
        return f"{waiting[0].name}: not due yet"
    return f"{waiting[0].name}: retrying soon" if waiting else ""
