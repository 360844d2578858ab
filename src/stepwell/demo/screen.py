"""Following the story: a live view on a terminal, one line per event elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from stepwell import State, Step, Transition
from stepwell.cli.output import SIGNS, STYLES, Output, Span
from stepwell.cli.text import shorten, without_password
from stepwell.demo.story import Story

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

EVENTS_SHOWN: Final = 9
_LEGEND: Final = {
    State.COMPLETED: "done", State.RUNNING: "runs", State.DISPATCHED: "handed out", State.PENDING: "waits",
    State.FAILED: "failed", State.CANCELLED: "cancelled", State.NOT_RUNNABLE: "cannot run",
}  # fmt: skip

_IN_WORDS: Final = {
    "waiting_for_children": "waits for its children",
    "children_concluded": "its children are done",
    "children_failed": "not all of its children concluded",
    "promoted": "an exception handler: now it is needed",
    "predecessor_failed": "what comes before it failed",
    "parent_cancelled": "with its parent",
}


class Screen(Protocol):
    """Shows what has happened since it was last told to follow."""

    def follow(self) -> None: ...


@contextmanager
def screen_for(output: Output, story: Story, workers: int) -> Iterator[Screen]:
    """The screen that fits where the output goes."""
    if output.rich is None:
        output.line(f"Stepwell demo: {workers} workers, one dispatcher, {without_password(story.app.database.url)}")
        yield _Lines(output, story)
        return
    from rich.live import Live

    with Live(console=output.rich, auto_refresh=False, transient=True) as live:
        yield _LiveView(live, story, workers)


class _Events:
    """What changed since the last look, from the history of every step."""

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
                    told = self._last_ids.get(step.id, 0)
                    changes = [change for change in self._story.app.history(step) if change.id > told]
                    fresh += [(step, change) for change in changes]
                    self._last_ids[step.id] = changes[-1].id if changes else told
        if not fresh:
            return []
        fresh.sort(key=lambda pair: pair[1].id)
        began = self._began = self._began or fresh[0][1].at
        return [((change.at - began).total_seconds(), step, change) for step, change in fresh]


def _worth_telling(change: Transition) -> bool:
    """Not the hand-over to a queue and not the creation: only what a person would mention."""
    return change.from_state is not None and change.to_state is not State.DISPATCHED


def _told(seconds: float, step: Step, change: Transition, width: int) -> list[Span]:
    state = change.to_state
    reason = change.reason or ""
    why = change.error or _IN_WORDS.get(reason, reason.replace("_", " "))
    if state is State.PENDING and change.reason == "retry":
        why = f"tries again soon: {why}"
    if state is State.CANCELLED and change.actor and change.actor.startswith("operator:"):
        why = f"by {change.actor.removeprefix('operator:')}: {why.removeprefix('operator: ')}"
    return [
        (f"{seconds:5.1f} s  ", "bright_black"),
        (f"{SIGNS[state]} ", STYLES[state]),
        shorten(step.name, 24).ljust(24),
        (str(state).ljust(12), STYLES[state]),
        (shorten(why, width - 48), "dim"),
    ]


class _Lines:
    def __init__(self, output: Output, story: Story) -> None:
        self._paper = output
        self._events = _Events(story)

    def follow(self) -> None:
        for seconds, step, change in self._events.look():
            if _worth_telling(change) and change.to_state is not State.RUNNING:
                self._paper.line(*_told(seconds, step, change, 120))


class _LiveView:
    def __init__(self, live: Live, story: Story, workers: int) -> None:
        self._live = live
        self._story = story
        self._workers = workers
        self._events = _Events(story)
        self._told: deque[list[Span]] = deque(maxlen=EVENTS_SHOWN)
        self._began = story.app.clock.monotonic()

    def follow(self) -> None:
        for seconds, step, change in self._events.look():
            if _worth_telling(change):
                self._told.append(_told(seconds, step, change, self._live.console.width))
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
            grid.add_row(Text(root, style="bold"), signs, _doing(steps))
        elapsed = self._story.app.clock.monotonic() - self._began
        title = Text.assemble(
            ("Stepwell demo", "bold"),
            (f"  {elapsed:4.1f} s · {self._workers} workers · one dispatcher", "bright_black"),
        )
        legend = Text("  ").join(
            Text.assemble((SIGNS[state], STYLES[state]), (f" {word}", "bright_black"))
            for state, word in _LEGEND.items()
        )
        told = [Text.assemble(*line, no_wrap=True, overflow="ellipsis") for line in self._told]
        blank = [Text("")] * (EVENTS_SHOWN - len(told))
        return Group(title, Text(""), grid, Text(""), *told, *blank, Text(""), legend)


def _doing(steps: list[Step]) -> str:
    running = [step.name for step in steps if step.state is State.RUNNING and step.lease_worker is not None]
    if running:
        return ", ".join(running)
    waiting = [step for step in steps if step.state is State.PENDING and step.dispatch_after is not None]
    if waiting and waiting[0].attempts == 0:
        return f"«{waiting[0].name}» waits for its time"
    return f"«{waiting[0].name}» tries again soon" if waiting else ""
