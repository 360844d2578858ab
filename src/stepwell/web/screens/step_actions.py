"""What the forms of a step do, and the breaker's."""

from __future__ import annotations

from stepwell.model.errors import StepwellError
from stepwell.model.times import seconds_of_text
from stepwell.web.own_address import own_address
from stepwell.web.screens.asked import Asked, Form


def retry(asked: Asked, form: Form, who: str) -> str:
    """At once; the page then offers to undo it."""
    step = asked.app.step(asked.params["id"])
    asked.app.retry(step, who=who, why=form.get("why") or None)
    return _to_step(asked, step.id)


def reset_attempts(asked: Asked, form: Form, who: str) -> str:
    step = asked.app.step(asked.params["id"])
    asked.app.reset_attempts(step, who=who, why=form.get("why") or None)
    return _to_step(asked, step.id)


def pause(asked: Asked, form: Form, who: str) -> str:
    why = form.get("why")
    if not why:
        raise StepwellError("pausing from this screen needs a reason, so that others know; nothing changed")
    asked.app.breaker.pause(who, why, planned=_planned(form.get("planned")))
    return back(asked, form)


def _planned(text: str) -> float | None:
    if not text.strip():
        return None
    seconds = seconds_of_text(text)
    if seconds is None:
        raise StepwellError(f"{text[:40]!r} is not a duration: write 20m, 1h30m or 90 (seconds); nothing changed")
    return seconds


def resume(asked: Asked, form: Form, who: str) -> str:
    asked.app.breaker.resume(who, form.get("why") or None)
    return back(asked, form)


def back(asked: Asked, form: Form, otherwise: str = "/") -> str:
    """The page that the form names; only one of the dashboard."""
    return f"{asked.base}{own_address(form.get('next') or otherwise) or otherwise}"


def _to_step(asked: Asked, step_id: int) -> str:
    newest = asked.app.operations.of_step(step_id, limit=1)
    return asked.link(f"/steps/{step_id}", did=newest[0].id if newest else None)
