"""The deploy gate: may I restart, and when?"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from stepwell.model.states import State
from stepwell.web.screens.asked import Asked, View
from stepwell.web.screens.commands import command
from stepwell.web.screens.usual import usual as usual_of

SHOWN: Final = 50


def deploy(asked: Asked) -> View:
    app = asked.app
    safety = app.breaker.safe_to_restart()
    page = app.lists.steps(limit=SHOWN, state=["Running", "Dispatched"])
    rows = [row for row in page.rows if row.state is State.DISPATCHED or row.own_code_done_at is None]
    usual: dict[str, tuple[float, float] | None] = {}
    estimated: list[tuple[Any, datetime | None]] = []
    for row in rows:
        if row.action not in usual:
            usual[row.action] = usual_of(app, row.action)
        span = usual[row.action]
        started = row.started_at if row.state is State.RUNNING else asked.now
        estimated.append((row, None if span is None or started is None else started + timedelta(seconds=span[1])))
    known = [moment for _, moment in estimated if moment is not None]
    all_known = len(known) == len(estimated)
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
            "more": page.next,
        },
    )
