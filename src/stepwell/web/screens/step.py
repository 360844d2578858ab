"""One step: what happened, why it is not running, and what can be done about it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Final

from stepwell.app import Stepwell
from stepwell.model.states import FAILED, RETRIABLE, State, is_legal
from stepwell.model.step import Step, Transition
from stepwell.web.draw.spans import NAMES, WORDS, noteworthy, spans_of
from stepwell.web.draw.timeline import draw_life
from stepwell.web.screens.asked import Asked, View
from stepwell.web.screens.commands import command
from stepwell.web.screens.templating import look_of_step
from stepwell.web.screens.usual import usual

CHILDREN: Final = 50
# Waits and attempts that are listed with their durations, the newest: four retries have sixteen.
SPANS: Final = 24
# How long a page offers to undo what led to it; the page of the operation always does.
UNDO_OFFERED: Final = timedelta(seconds=10)
_STACK_FRAME: Final = re.compile(r'^  File "(?P<file>[^"]+)", line \d+')
_NOT_OWN: Final = ("site-packages", "/stepwell/", "lib/python", "<frozen")


def step(asked: Asked) -> View:
    app, found = asked.app, asked.app.step(asked.params["id"])
    history = app.history(found)
    explanation = app.explain(found)
    spans = spans_of(history, found.own_code_done_at)
    listed = noteworthy(spans)
    look = look_of_step(found)
    return View(
        template="step.html",
        title=f"{look.sign} {found.name} {found.id}",
        cli=command("show", found.id),
        screen="Steps",
        data={
            "step": found,
            "history": history,
            "attempts": _attempts(history),
            "explanation": explanation,
            "life": draw_life(spans, asked.now, label=f"The life of step {found.id}"),
            "legend": WORDS,
            "names": NAMES,
            "spans": listed[-SPANS:],
            "earlier": max(len(listed) - SPANS, 0),
            "frames": _frames(found.error_stack_trace),
            "logs": app.logs(found),
            "children": app.lists.steps(limit=CHILDREN, parent=found.id) if found.has_children else None,
            "depends_on": app.reader.dependencies(found),
            "operations": app.operations.of_step(found.id, limit=20),
            "alike": _alike(app, found),
            "actions": _actions(found),
            "did": _did(asked, found),
            "usual": usual(app, found.action) if found.state is State.RUNNING else None,
        },
    )


def _actions(step: Step) -> set[str]:
    """What the transition table allows an operator."""
    targets = {"retry": State.PENDING, "cancel": State.CANCELLED, "skip": State.SKIPPED}
    found = {name for name, target in targets.items() if is_legal(step.state, target, operator=True)}
    if step.state not in RETRIABLE:
        found.discard("retry")
    if step.state is State.PENDING and step.attempts:
        found.add("reset")
    return found


def _attempts(history: list[Transition]) -> int:
    return sum(change.to_state is State.RUNNING and change.from_state is not State.RUNNING for change in history)


def _alike(app: Stepwell, step: Step) -> Any:
    """The cause of a failure, if there is one: how many others have it."""
    if step.state not in FAILED:
        return None
    return app.figures.cause_of(step.id)


def _did(asked: Asked, step: Step) -> Any:
    """The operation that led to this page, as long as it is the step's newest and can be undone."""
    number = asked.number("did")
    newest = asked.app.operations.of_step(step.id, limit=1)
    if number is None or not newest or newest[0].id != number:
        return None
    is_fresh = asked.now - (newest[0].started_at or newest[0].created_at) < UNDO_OFFERED
    return newest[0], is_fresh and asked.app.operations.can_undo(newest[0].kind)


def _frames(stack: str | None) -> tuple[str, str] | None:
    """A stack trace with own frames first, and as it is."""
    if not stack:
        return None
    own: list[str] = []
    keep = False
    for line in stack.splitlines():
        frame = _STACK_FRAME.match(line)
        if frame is not None:
            keep = not any(part in frame["file"] for part in _NOT_OWN)
        elif not line.startswith("    "):
            keep = True
        if keep:
            own.append(line)
    return "\n".join(own), stack
