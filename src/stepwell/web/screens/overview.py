"""The overview: does anything need me? Then the totals, hosts, classes and groups."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from stepwell.look import palette
from stepwell.look.figures import GroupFigures
from stepwell.look.palette import Look
from stepwell.look.words import counted, span
from stepwell.model.states import State
from stepwell.operate.reaper import STALLED_SECONDS
from stepwell.web.screens.asked import Asked, View
from stepwell.web.screens.commands import command
from stepwell.web.screens.last_hour import last_hour

STALLED: Final = timedelta(seconds=STALLED_SECONDS)
_OVERDUE_SHOWN: Final = 3
MOST_GROUPS: Final = 30


@dataclass(frozen=True, slots=True)
class Need:
    """Something that a person should look at, and where to act on it."""

    what: str
    more: str
    href: str
    is_bad: bool = True


@dataclass(frozen=True, slots=True)
class Tile:
    look: Look
    word: str
    steps: int
    href: str
    part_of: str = ""  # a part of another tile, and not to be added to it


def overview(asked: Asked) -> View:
    figures = asked.app.figures
    totals = figures.totals()
    return View(
        template="overview.html",
        title="Overview",
        cli=command("stats"),
        screen="Overview",
        data={
            "needs": _needs(asked),
            "tiles": _tiles(asked, totals),
            "steps": totals.steps,
            "hosts": [(host, figures.classes(host.host)) for host in figures.hosts()],
            "classes": figures.classes(),
            "groups": _groups(figures.groups()),
            "breaker": asked.app.breaker.state(),
            "oldest": figures.oldest_ready(),
            **last_hour(asked.app, asked.now),
        },
    )


def _groups(groups: list[GroupFigures]) -> list[GroupFigures]:
    """All of them, so that each stays in its place; of very many only those with work."""
    return groups if len(groups) <= MOST_GROUPS else [group for group in groups if group.queued or group.running]


def _tiles(asked: Asked, totals: Any) -> list[Tile]:
    def of(state: State) -> Tile:
        look = palette.OF_STATE[state]
        return Tile(look, look.word, totals.states[state], asked.link("/steps", state=state))

    pending, running = asked.link("/steps", state="Pending"), asked.link("/steps", state="Running")
    throttled = asked.link("/steps", throttled="yes")
    return [
        of(State.PENDING),
        Tile(palette.PENDING, "Child pending", totals.child_pending, pending, "Pending"),
        of(State.DISPATCHED),
        of(State.RUNNING),
        Tile(palette.CHILD_RUNNING, "Child running", totals.child_running, running, "Running"),
        Tile(palette.THROTTLED, "Throttled", totals.throttled, throttled, "Pending"),
        *(of(state) for state in State if state.is_terminal),
    ]


def _needs(asked: Asked) -> list[Need]:
    app, needs = asked.app, []
    if causes := app.figures.causes(limit=100):
        steps, behind = sum(cause.steps for cause in causes), sum(cause.behind for cause in causes)
        more = counted(steps, "failed step") + (f", {behind:,} behind them" if behind else "")
        needs.append(Need(f"{counted(len(causes), 'cause')} of failures", more, asked.link("/failures")))
    for lane in app.reader.unserved_lanes()[:_OVERDUE_SHOWN]:
        needs.append(
            Need(
                f"no worker runs {lane.action}",
                f"{counted(lane.steps, 'step')} of queue {lane.queue} wait",
                asked.link("/steps", action=lane.action, queue=lane.queue, state="Pending"),
            )
        )
    needs += _stalled_groups(asked)
    for missed in app.schedules.overdue()[:_OVERDUE_SHOWN]:
        needs.append(Need(f"schedule {missed.schedule} is overdue", "", asked.link("/schedules")))
    if aside := app.reader.set_aside(limit=100):
        needs.append(Need(f"{counted(len(aside), 'row')} set aside", "plain SQL wrote rows that cannot run",
                          asked.link(f"/steps/{aside[0].id}"), is_bad=False))  # fmt: skip
    return needs


def _stalled_groups(asked: Asked) -> list[Need]:
    """Groups whose next step has been ready for a minute although a slot for it is free."""
    app, found = asked.app, []
    for group, head in app.reader.next_runnable().items():
        waited = asked.now - head.updated_at
        if waited > STALLED:
            age = span(waited.total_seconds())
            found.append(
                Need(f"group {group}: no progress for {age}", f"step {head.id} is ready and a slot is free",
                     asked.link(f"/groups/{group}"))
            )  # fmt: skip
    return found[:_OVERDUE_SHOWN]
