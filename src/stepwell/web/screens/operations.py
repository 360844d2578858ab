"""Operations: a frozen preview, its execution at a pace, what became of each item, undo; and the list of all."""

from __future__ import annotations

from typing import Any, Final

from stepwell.look.about_operation import COUNTED_TARGETS, about_operation
from stepwell.look.shown import shown_operation
from stepwell.model.errors import OperationNotFound, StepwellError
from stepwell.model.ids import canonical_uuid
from stepwell.operate.operations import Operation
from stepwell.web.screens.asked import ONLY_DATA, Asked, Form, View, id_of
from stepwell.web.screens.commands import command
from stepwell.web.screens.filters import filters_of, refuse_secrets
from stepwell.web.screens.step_actions import back

PAGE: Final = 50
ITEMS: Final = 100
PACES: Final = (
    ("", "at once"),
    ("10/second", "10 per second"),
    ("50/minute", "50 per minute"),
    ("5/minute", "5 per minute"),
)
_PREVIEWS: Final = ("previewing", "previewed")


def operations(asked: Asked) -> View:
    before = asked.number("before")
    rows = [shown_operation(row, asked.app.redaction) for row in asked.app.operations.newest(before=before, limit=PAGE)]
    targets = asked.app.operations.targets_of([row.id for row in rows], most=COUNTED_TARGETS + 1)
    return View(
        template="operations.html",
        holds=ONLY_DATA,
        title="Operations",
        cli=command("operations", "list", before=before),
        screen="Operations",
        data={
            "rows": rows,
            "about": {row.id: about_operation(row, targets.get(row.id)) for row in rows},
            "older": asked.here(before=rows[-1].id) if len(rows) == PAGE else None,
        },
    )


def operation(asked: Asked) -> View:
    number = asked.id(OperationNotFound)
    found = asked.app.operations.get(number)
    row = shown_operation(found.row(), asked.app.redaction)
    is_preview = row.state in _PREVIEWS
    after = asked.number("after") or 0
    outcome = asked.get("outcome") or None
    expected, became = (outcome, None) if is_preview else (None, outcome)
    items = found.items(after=after, limit=ITEMS, expected=expected, outcome=became)
    data: dict[str, Any] = {
        "row": row,
        "about": about_operation(row, None),
        "items": items,
        "outcome": outcome,
        "by_action": found.by_action(),
        "more": asked.here(after=items[-1].id) if len(items) == ITEMS else None,
        "paces": PACES,
        "can_undo": row.state == "done" and asked.app.operations.can_undo(row.kind),
        "is_workflows": row.kind.endswith("_workflow"),
    }
    if is_preview:
        data["counts"] = asked.app.operations.open_preview(number).counts()
    else:
        data["progress"] = found.progress()
    return View(
        template="preview.html" if is_preview else "operation.html",
        title=f"{row.kind} · operation {row.id}",
        cli=command("operations", "show", row.id),
        screen="Operations",
        data=data,
        live=not is_preview,
    )


# actions ------------------------------------------------------------------------------------------------


def preview(asked: Asked, form: Form, who: str) -> str:
    """Freeze what is ticked, or all that match the filters of the list."""
    kind = form.get("all") or form.get("do")
    if not kind:
        raise StepwellError("the form does not say what to do; nothing changed")
    filters: dict[str, Any]
    if form.get("all"):
        pairs = [(name.removeprefix("filter."), value) for name, value in form.fields if name.startswith("filter.")]
        refuse_secrets(asked, pairs)
        filters = filters_of(pairs)
    elif form.all("workflow"):
        filters = {"id": [_uuid(text) for text in form.all("workflow")]}
    else:
        ids = [found for value in form.all("id") if (found := id_of(value)) is not None]
        if not ids:
            raise StepwellError("nothing is ticked; nothing changed")
        filters = {"id": ids}
    made = asked.app.operations.preview(kind, **filters)
    return asked.link(f"/operations/{made.id}")


def execute(asked: Asked, form: Form, who: str) -> str:
    """Start what the preview froze; it continues in the background, and another process can continue it."""
    number = asked.id(OperationNotFound)
    pace, why = form.get("pace") or None, form.get("why") or None
    started = asked.app.operations.open_preview(number).execute(who=who, why=why, pace=pace, wait=False)
    _run(asked, started)
    return asked.link(f"/operations/{number}")


def undo(asked: Asked, form: Form, who: str) -> str:
    made = asked.app.operations.get(asked.id(OperationNotFound)).undo(who=who, why=form.get("why") or None, wait=False)
    _run(asked, made)
    return back(asked, form, f"/operations/{made.id}")


def resume(asked: Asked, form: Form, who: str) -> str:
    """Continue an operation whose process has ended."""
    found = asked.app.operations.get(asked.id(OperationNotFound))
    _run(asked, found)
    return asked.link(f"/operations/{found.id}")


def _uuid(text: str) -> str:
    found = canonical_uuid(text)
    if found is None:
        raise StepwellError(f"{text[:100]!r} is not the id of a workflow; nothing changed")
    return found


def _run(asked: Asked, operation: Operation) -> None:
    """The first batch now, so that a small operation is done when the page appears; the rest in the background."""
    if operation.round() is not None:
        asked.site.operations.run(operation)
