"""One workflow: as a tree, as a graph, as a timeline, and as it was at an earlier moment.

Of a large workflow only counts and pages are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from markupsafe import Markup

from stepwell.look import palette
from stepwell.look.outline import CHUNK, Outline
from stepwell.look.reader import TreeNode
from stepwell.model.errors import StepNotFound, WorkflowNotFound
from stepwell.model.ids import canonical_uuid
from stepwell.model.states import State
from stepwell.model.step import Step
from stepwell.model.workflow_states import SETTLED, WorkflowState
from stepwell.store.engine.workflows import WorkflowRow
from stepwell.web.draw.spans import WORDS
from stepwell.web.screens import workflow_graph, workflow_nodes, workflow_outline, workflow_timeline
from stepwell.web.screens.asked import USUAL_SECONDS, Asked, View, moment_of
from stepwell.web.screens.commands import command
from stepwell.web.screens.workflow_nodes import counts, state_of

VIEWS: Final = ("tree", "graph", "timeline")


@dataclass(frozen=True, slots=True)
class Shown:
    """What is below the head of the page, and what the head says of the steps."""

    states: Counter[State]
    state: str  # if no declared workflow has one
    name: str
    first: datetime
    last: datetime
    data: dict[str, Any]
    holds: float = USUAL_SECONDS


def workflow(asked: Asked) -> View:
    app, workflow_id = asked.app, canonical_uuid(asked.params["id"])
    if workflow_id is None:
        raise WorkflowNotFound(f"{asked.params['id'][:100]!r} is not the id of a workflow")
    at = moment_of(asked.get("at")) if asked.get("at") else None
    view = asked.get("view") if asked.get("view") in VIEWS else "tree"
    run = app.workflows.run(workflow_id)
    try:
        row = run.row()
    except WorkflowNotFound:
        row = None
    is_large = Outline(app.database, workflow_id).is_larger_than(workflow_outline.LARGE)
    shown = (_large if is_large else _small)(asked, workflow_id, row, view, at)
    state = shown.state
    explains = not is_large or asked.get("why") == "yes"
    is_stuck = row is not None and at is None and state not in SETTLED
    return View(
        template="workflow.html",
        title=f"{_sign(state)} {shown.name}",
        cli=_command(view, workflow_id, at),
        screen="Workflows",
        data={
            "row": row,
            "id": workflow_id,
            "name": shown.name,
            "state": state,
            "view_name": view,
            "at": at,
            "first": shown.first,
            "last": shown.last,
            "counts": counts(shown.states),
            "marked": asked.number("step"),
            "paused": app.reader.pause_of(workflow_id),
            "history": run.history() if row is not None else [],
            "explanation": run.explain() if explains and is_stuck else None,
            "explains": explains,
            "operations": app.operations.of_workflow(workflow_id, limit=10),
            "is_settled": state in SETTLED,
            "can_go_back": not is_large or view == "timeline",
            "too_many": 0,
            "most_boxes": workflow_graph.MOST_BOXES,
            "drawing": Markup(""),
            "legend": WORDS,
            "nodes": [],
            "lines": [],
            "census": None,
            **shown.data,
        },
        live=at is None,
        holds=shown.holds,
    )


def _command(view: str, workflow_id: str, at: datetime | None) -> str:
    shows_tree = view == "tree" and at is None
    return command("tree" if shows_tree else "show", workflow_id, at=at.isoformat() if at else None)


def _sign(state: str) -> str:
    return palette.OF_WORKFLOW_STATE[WorkflowState(state)].sign


def _small(asked: Asked, workflow_id: str, row: WorkflowRow | None, view: str, at: datetime | None) -> Shown:
    """All steps are read."""
    trees = asked.app.reader.workflow_trees(workflow_id)
    if row is None and not trees:
        asked.app.workflows.run(workflow_id).row()  # raises what is to be said
    nodes = [workflow_nodes.now(tree) for tree in trees]
    then = asked.app.workflow_at(workflow_id, at) if at is not None else None
    known = {node.id: node for top in nodes for _, node in top.walk()}
    present = nodes if then is None else workflow_nodes.then(then, known)
    states = workflow_nodes.states_of(present)
    state = (then.state if then is not None else row.state if row is not None else None) or state_of(states)
    data: dict[str, Any] = {"nodes": present}
    if view == "graph":
        data |= workflow_graph.of_nodes(asked, present)
    elif view == "timeline":
        data |= workflow_timeline.of_nodes(asked, nodes, at)
    steps = [step for top in trees for step in _steps(top)]
    first = min((step.created_at for step in steps), default=asked.now)
    is_over = all(step.state.is_terminal for step in steps)
    last = max((step.updated_at for step in steps), default=asked.now) if is_over else asked.now
    return Shown(states, state, _name(row, trees[0].step if trees else None, workflow_id), first, last, data)


def _steps(tree: TreeNode) -> Iterator[Step]:
    yield tree.step
    for child in tree.children:
        yield from _steps(child)


def _large(asked: Asked, workflow_id: str, row: WorkflowRow | None, view: str, at: datetime | None) -> Shown:
    """Counts and pages are read."""
    app, outline = asked.app, Outline(asked.app.database, workflow_id)
    root = None if row is not None else _root(asked, workflow_id)
    is_settled = row is not None and row.state in SETTLED
    is_settled = is_settled or (root is not None and root.state.is_terminal)
    census = asked.site.censuses.of(app.database, workflow_id, is_settled=is_settled)
    states = census.states + Counter([root.state] if root is not None else [])
    state = row.state if row is not None else state_of(states) if root is None else state_of(Counter([root.state]))
    data: dict[str, Any] = {"census": census, "chunk": CHUNK}
    if view == "timeline":
        data |= workflow_timeline.of_outline(asked, outline, root, at)
    elif view == "graph":
        data |= workflow_graph.of_census(asked, outline, census, root)
    if view == "tree" or data.get("too_many"):
        data |= workflow_outline.of_census(asked, outline, census, root)
    first = row.created_at if row is not None else root.created_at if root is not None else asked.now
    last = row.settled_at if row is not None else root.completed_at if root is not None else None
    holds = USUAL_SECONDS if census.is_complete else 0.0
    return Shown(states, state, _name(row, root, workflow_id), first, last or asked.now, data, holds)


def _root(asked: Asked, workflow_id: str) -> Step | None:
    try:
        return asked.app.step(workflow_id)
    except StepNotFound:
        return None


def _name(row: WorkflowRow | None, first: Step | None, workflow_id: str) -> str:
    if row is not None:
        return f"{row.namespace}.{row.name}"
    return first.name if first is not None else workflow_id
