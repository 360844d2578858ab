"""The list of declared workflows."""

from __future__ import annotations

from typing import Final

from stepwell.look import palette
from stepwell.look.outline import listed
from stepwell.model.workflow_states import WorkflowState
from stepwell.web.screens.asked import Asked, View
from stepwell.web.screens.commands import command
from stepwell.web.screens.workflow_outline import LARGE

PAGE: Final = 50


def workflows(asked: Asked) -> View:
    state, name = asked.get("state") or None, asked.get("name") or None
    rows = listed(asked.app.database, state=state, name=name, limit=PAGE, large=LARGE)
    looks = [(each, palette.OF_WORKFLOW_STATE[each]) for each in WorkflowState]
    return View(
        template="workflows.html",
        title="Workflows",
        cli=command("workflows", "list", state=state, name=name),
        screen="Workflows",
        data={
            "rows": rows,
            "name": name,
            "state": state,
            "large": LARGE,
            "chips": [("all", None, asked.here(state=None), state is None)]
            + [(each, look, asked.here(state=each), state == each) for each, look in looks],
            "is_full": len(rows) == PAGE,
        },
    )
