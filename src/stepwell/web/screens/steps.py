"""The list of steps: filters in the address, search by argument, bulk actions on ticked ones or all that match."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from stepwell.look import palette
from stepwell.model.states import RETRIABLE, State
from stepwell.web.screens.asked import ONLY_DATA, Asked, Redirect, View
from stepwell.web.screens.filters import command_of, filters_of, pairs_of, refuse_secrets

PAGE: Final = 50
_STATES: Final = [*State]


def steps(asked: Asked) -> View | Redirect:
    pairs = pairs_of(asked)
    if asked.all("arg"):  # the form's field becomes the address of what is shown
        return Redirect(f"{asked.base}/steps?{urlencode(pairs)}")
    refuse_secrets(asked, pairs)
    filters, before = filters_of(pairs), asked.number("before")
    page = asked.app.lists.steps(limit=PAGE, before=before, **filters)
    count = asked.app.lists.count(**filters)
    looked_before = asked.number("looked") or 0
    looked_at = looked_before + page.looked_at
    scans = len(page.rows) < PAGE and page.next is not None
    return View(
        template="steps.html",
        holds=ONLY_DATA,
        title=_title(pairs),
        cli=command_of(pairs, "steps", before=before),
        screen="Steps",
        data={
            "rows": page.rows,
            "count": count,
            "pairs": pairs,
            "chips": _chips(asked),
            "older": asked.here(before=page.next, looked=looked_at if scans else None) if page.next else None,
            "scans": scans or bool(filters.get("args")),
            "looked_at": looked_at,
            "newest": asked.here(before=None, looked=None) if before else None,
            "actions": _actions(filters),
            "value": dict(pairs).get,
        },
    )


def _title(pairs: list[tuple[str, str]]) -> str:
    states = [value for name, value in pairs if name == "state"]
    about = [value for name, value in pairs if name != "state"]
    sign = f"{palette.OF_STATE[State(states[0])].sign} " if len(states) == 1 and states[0] in list(State) else ""
    return f"{sign}{' '.join([*states, 'steps', *about])}"


def _chips(asked: Asked) -> list[tuple[str, palette.Look | None, str, bool]]:
    """Word, look, address and whether it is chosen; a second click takes it away."""
    chosen = asked.all("state")
    throttled = bool(asked.get("throttled"))
    anew = {"before": None, "looked": None}
    found: list[tuple[str, palette.Look | None, str, bool]] = [
        ("All", None, asked.here(state=None, throttled=None, **anew), not chosen and not throttled)
    ]
    for state in _STATES:
        word, look = str(state), palette.OF_STATE[state]
        others = [state for state in chosen if state != word]
        new = others if word in chosen else [*chosen, word]
        found.append((word, look, asked.here(state=new or None, **anew), word in chosen))
    switched = asked.here(throttled=None if throttled else "yes", **anew)
    found.insert(2, ("throttled", palette.THROTTLED, switched, throttled))
    return found


def _actions(filters: dict[str, Any]) -> list[tuple[str, str]]:
    """What can be done in bulk with the steps of the chosen states."""
    states = set(filters.get("state", ()))
    found = []
    if not states or states & RETRIABLE:
        found.append(("retry", "Retry"))
    if not states or states & {"Pending", "Dispatched", "Running", "NotRunnable"}:
        found.append(("cancel", "Cancel"))
    if not states or states & {*RETRIABLE, "Pending", "NotRunnable"}:
        found.append(("skip", "Skip"))
    return found
