"""The deploy gate: may I restart, and when?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from stepwell.model.states import State
from stepwell.web.screens.asked import Asked, View
from stepwell.web.screens.commands import command
from stepwell.web.screens.usual import usual as usual_of

# Running steps are what a restart waits for: more of them are read than are likely to run at once.
RUNNING: Final = 200
DISPATCHED: Final = 50


def deploy(asked: Asked) -> View:
    app = asked.app
    safety = app.breaker.safe_to_restart()
    running = app.lists.steps(limit=RUNNING, state="Running")
    dispatched = app.lists.steps(limit=DISPATCHED, state="Dispatched")
    rows = [*(row for row in running.rows if row.own_code_done_at is None), *dispatched.rows]
    usual: dict[str, tuple[float, float] | None] = {}
    estimated: list[tuple[Any, datetime | None]] = []
    for row in rows:
        if row.action not in usual:
            usual[row.action] = usual_of(app, row.action)
        span = usual[row.action]
        started = row.started_at if row.state is State.RUNNING else asked.now
        estimated.append((row, None if span is None or started is None else started + timedelta(seconds=span[1])))
    estimated.sort(key=_end, reverse=True)
    known = [moment for _, moment in estimated if moment is not None]
    all_known = len(known) == len(estimated) and not running.next and not dispatched.next
    return View(
        template="deploy.html",
        title="safe to restart" if safety.safe else "Deploy",
        cli=command("safe-to-restart"),
        screen="Deploy",
        data={
            "safety": safety,
            "breaker": app.breaker.state(),
            "rows": estimated,
            "usual": usual,
            "expected": max(known) if known and all_known and not safety.dispatching else None,
            "more": [state for state, page in (("Running", running), ("Dispatched", dispatched)) if page.next],
        },
    )


def _end(estimate: tuple[Any, datetime | None]) -> datetime:
    """What ends last comes first on the screen, and before it what has no estimate."""
    return estimate[1] or datetime.max.replace(tzinfo=UTC)
