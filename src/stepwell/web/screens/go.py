"""The search field: an id, the beginning of a uuid, `type:id` of an object, or the name of an action."""

from __future__ import annotations

import re
from typing import Final

from stepwell.model.errors import StepNotFound, WorkflowNotFound
from stepwell.web.screens.asked import Asked, Redirect

_UUID: Final = re.compile(r"[0-9a-f]{4,8}(-[0-9a-f-]*)?", re.IGNORECASE)


def go(asked: Asked) -> Redirect:
    wanted = str(asked.params.get("prefix") or asked.get("q")).strip()
    if not wanted:
        return Redirect(asked.link("/steps"))
    if wanted.isascii() and wanted.isdecimal():
        return Redirect(asked.link(f"/steps/{wanted}"))
    if _UUID.fullmatch(wanted) and (found := _by_uuid(asked, wanted)) is not None:
        return found
    if ":" in wanted:
        return Redirect(asked.link("/steps", relatable=wanted))
    if "=" in wanted:
        return Redirect(asked.link("/steps", arg=wanted))
    return Redirect(asked.link("/steps", action=wanted))


def _by_uuid(asked: Asked, wanted: str) -> Redirect | None:
    if ids := asked.app.workflows.ids_like(wanted):
        return Redirect(asked.link(f"/workflows/{ids[0]}"))
    try:
        return Redirect(asked.link(f"/steps/{asked.app.step(wanted).id}"))
    except (StepNotFound, WorkflowNotFound):
        return None
