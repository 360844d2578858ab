"""A workflow as a timeline: a page of rows, of all attempts or of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from markupsafe import Markup

from stepwell.look.outline import Outline
from stepwell.model.step import Step
from stepwell.web.draw import timeline
from stepwell.web.draw.spans import of_attempt, spans_of
from stepwell.web.screens.asked import Asked
from stepwell.web.screens.workflow_nodes import Node, of_step

ROWS: Final = 100
_DEEPEST: Final = 6  # names are indented up to this depth
# Choices of attempts; a step that is rescheduled may have thousands, of which the last are the ones to look at.
_MOST_CHOICES: Final = 20

Row = tuple[int, Node]


def of_nodes(asked: Asked, nodes: Sequence[Node], at: datetime | None) -> dict[str, Any]:
    """All steps are known: a page of them in the order of the tree, from the step that `from` names."""
    flat = [row for top in nodes for row in top.walk()]
    start = asked.number("from")
    place = next((place for place, (_, node) in enumerate(flat) if node.id == start), 0)
    shown = flat[place : place + ROWS]
    following = flat[place + ROWS][1].id if place + ROWS < len(flat) else None
    extent = f"{place + 1:,} to {place + len(shown):,} of {len(flat):,} steps" if len(flat) > ROWS else ""
    return _data(asked, shown, at, extent, following, is_first=place == 0)


def of_outline(asked: Asked, outline: Outline, root: Step | None, at: datetime | None) -> dict[str, Any]:
    """A page of the steps in the order of their creation."""
    start = asked.number("from")
    is_first = start is None
    page = outline.page(0 if start is None else start - 1, ROWS + 1)
    rows: list[Row] = [(0, of_step(root))] if root is not None and is_first else []
    rows += [(0 if step.parent_step_id is None else 1, of_step(step)) for step in page[:ROWS]]
    following = page[ROWS].id if len(page) > ROWS else None
    extent = f"{len(rows):,} steps in the order of their creation, from step {rows[0][1].id}" if rows else ""
    return _data(asked, rows, at, extent, following, is_first=is_first)


def _data(
    asked: Asked, shown: Sequence[Row], at: datetime | None, extent: str, following: int | None, *, is_first: bool
) -> dict[str, Any]:
    now = at or asked.now
    histories = asked.app.reader.histories([node.id for _, node in shown])
    attempt = asked.number("attempt")
    rows, attempts = [], 1
    for depth, node in shown:
        history = [change for change in histories.get(node.id, []) if change.at <= now]
        attempts = max([attempts, *(change.attempt for change in history)])
        done = node.own_code_done_at
        spans = spans_of(history, done if done is not None and done <= now else None)
        if spans := of_attempt(spans, attempt) if attempt is not None else spans:
            href = asked.link(f"/steps/{node.id}")
            rows.append(timeline.Row(str(node.id), node.name, node.look, spans, min(depth, _DEEPEST), href))
    return {
        "drawing": timeline.draw(rows, now, label=_label(attempt)) if rows else Markup(""),
        "attempt": attempt,
        "attempts": range(1, attempts + 1)[-_MOST_CHOICES:],
        "extent": extent,
        "next_rows": asked.here(**{"from": following}) if following is not None else None,
        "first_rows": None if is_first else asked.here(**{"from": None}),
    }


def _label(attempt: int | None) -> str:
    what = "When the steps waited and ran"
    return what if attempt is None else f"{what}, attempt {attempt}"
