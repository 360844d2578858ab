"""One workflow: as a tree, as a graph, as a timeline, and as it was at an earlier moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from markupsafe import Markup

from stepwell.look import palette
from stepwell.look.palette import Look
from stepwell.look.past import WorkflowThen
from stepwell.look.reader import TreeNode
from stepwell.model.errors import WorkflowNotFound
from stepwell.model.ids import canonical_uuid
from stepwell.model.redaction import redacted
from stepwell.model.states import State
from stepwell.model.step import Step
from stepwell.model.workflow_states import SETTLED, WorkflowState
from stepwell.web.draw import graph, timeline
from stepwell.web.draw.layers import Placed
from stepwell.web.draw.spans import WORDS, spans_of
from stepwell.web.screens.asked import Asked, View, moment_of
from stepwell.web.screens.commands import command

VIEWS: Final = ("tree", "graph", "timeline")
MOST_BOXES: Final = 200  # more is unreadable as a graph: the tree is shown
MOST_ROWS: Final = 150
STACK_FROM: Final = 4  # this many like siblings become one box


@dataclass(frozen=True, slots=True)
class Node:
    """A step, now or at an earlier moment, with its children."""

    id: int
    name: str
    action: str
    look: Look
    word: str
    note: str
    children: tuple[Node, ...]
    step: Step | None = None

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Node]]:
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


def workflow(asked: Asked) -> View:
    app, workflow_id = asked.app, canonical_uuid(asked.params["id"])
    if workflow_id is None:
        raise WorkflowNotFound(f"{asked.params['id'][:100]!r} is not the id of a workflow")
    at = _moment(asked.get("at"))
    view = asked.get("view") if asked.get("view") in VIEWS else "tree"
    trees = app.reader.workflow_trees(workflow_id)
    run = app.workflows.run(workflow_id)
    try:
        row = run.row()
    except WorkflowNotFound:
        row = None
        if not trees:
            raise
    first, last = _period(asked, trees)
    then = app.workflow_at(workflow_id, at) if at is not None else None
    nodes = [_now(tree) for tree in trees] if then is None else _then(then)
    state = (then.state if then is not None else row.state if row is not None else None) or _state_of(nodes)
    name = f"{row.namespace}.{row.name}" if row is not None else (trees[0].step.name if trees else workflow_id)
    data: dict[str, Any] = {
        "row": row,
        "id": workflow_id,
        "name": name,
        "state": state,
        "view_name": view,
        "nodes": nodes,
        "at": at,
        "first": first,
        "last": last,
        "counts": _counts(nodes),
        "marked": asked.number("step"),
        "paused": app.reader.pause_of(workflow_id),
        "history": run.history() if row is not None else [],
        "explanation": run.explain() if row is not None and at is None and state not in SETTLED else None,
        "operations": app.operations.of_workflow(workflow_id, limit=10),
        "is_settled": state in SETTLED,
        "too_many": False,
        "drawing": Markup(""),
        "legend": WORDS,
    }
    if view == "graph":
        data |= _graph(asked, nodes, trees)
    elif view == "timeline":
        data["drawing"] = _timeline(asked, trees, at)
    return View(
        template="workflow.html",
        title=f"{_look(state).sign} {name}",
        cli=command(
            "tree" if view == "tree" and at is None else "show", workflow_id, at=at.isoformat() if at else None
        ),
        screen="Workflows",
        data=data,
        live=at is None,
    )


def _command(view: str, workflow_id: str, at: datetime | None) -> str:
    if at is not None:
        return command("show", workflow_id, at=at.isoformat())
    return command("tree" if view == "tree" else "show", workflow_id)


def _moment(text: str) -> datetime | None:
    return moment_of(text) if text else None


def _period(asked: Asked, trees: list[TreeNode]) -> tuple[datetime, datetime]:
    steps = [step for tree in trees for step in _steps(tree)]
    if not steps:
        return asked.now, asked.now
    is_over = all(step.state.is_terminal for step in steps)
    first = min(step.created_at for step in steps)
    return first, max(step.updated_at for step in steps) if is_over else asked.now


def _steps(tree: TreeNode) -> Iterator[Step]:
    yield tree.step
    for child in tree.children:
        yield from _steps(child)


# nodes --------------------------------------------------------------------------------------------------


def _now(tree: TreeNode) -> Node:
    step = tree.step
    look = palette.THROTTLED if step.is_throttled and step.state is State.PENDING else palette.OF_STATE[step.state]
    if step.state is State.RUNNING and step.own_code_done_at is not None:
        look = palette.CHILD_RUNNING
    note = step.error_message if step.state in (State.FAILED, State.STOPPED) else step.reason
    name = step.name if step.template is None else step.label or step.template
    return Node(
        step.id,
        name,
        step.action,
        look,
        str(step.state),
        note or "",
        tuple(_now(child) for child in tree.children),
        step,
    )


def _then(found: WorkflowThen) -> list[Node]:
    below: dict[int | None, list[Any]] = {}
    known = {step.id for step in found.steps}
    for step in found.steps:
        below.setdefault(step.parent_step_id if step.parent_step_id in known else None, []).append(step)

    def build(step: Any) -> Node:
        children = tuple(build(child) for child in below.get(step.id, ()))
        look = palette.OF_STATE[step.state]
        return Node(step.id, step.label or step.template or step.action, step.action, look, str(step.state),
                    step.error or step.reason or "", children)  # fmt: skip

    return [build(step) for step in below.get(None, ())]


def _counts(nodes: list[Node]) -> list[tuple[Look, str, int]]:
    found: Counter[str] = Counter(node.word for top in nodes for _, node in top.walk())
    return [(palette.OF_STATE[state], str(state), found[state]) for state in State if found[state]]


def _state_of(nodes: list[Node]) -> str:
    """Of steps without a declared workflow."""
    words = {node.word for node in nodes}
    if words & {"Pending", "Dispatched", "Running"}:
        return WorkflowState.IN_PROGRESS
    if words <= {"Completed", "Skipped"}:
        return WorkflowState.COMPLETE
    return WorkflowState.CANCELLED if words <= {"Completed", "Skipped", "Cancelled"} else WorkflowState.ERROR


def _look(state: str) -> Look:
    return palette.OF_WORKFLOW_STATE[WorkflowState(state)]


# graph --------------------------------------------------------------------------------------------------


def _graph(asked: Asked, nodes: list[Node], trees: list[TreeNode]) -> dict[str, Any]:
    """Boxes for the steps; like siblings are one stack; children of a single root are its graph."""
    tops = nodes
    if len(nodes) == 1 and nodes[0].children:
        tops = [nodes[0], *nodes[0].children]
    boxes, edges = [], []
    ids = [node.id for node in tops]
    depends = asked.app.reader.edges_to(ids)
    for node in tops:
        expanded = node is not nodes[0] or len(nodes) > 1
        boxes.append(_box(asked, node, show_children=expanded))
        edges += [(str(other), str(node.id)) for other in depends.get(node.id, ()) if other in ids]
    edges += _index_edges(trees, tops, edges)
    if len(boxes) > MOST_BOXES:
        return {"too_many": True}
    placed = _layout(tuple(box.key for box in boxes), tuple(edges))
    return {"drawing": graph.draw(boxes, edges, placed, label="The steps of the workflow and their order")}


@lru_cache(maxsize=256)
def _layout(keys: tuple[str, ...], edges: tuple[tuple[str, str], ...]) -> Placed[str]:
    return graph.layout(keys, edges)


def _box(asked: Asked, node: Node, *, show_children: bool) -> graph.Box:
    below = [child for _, child in node.walk()][1:] if show_children else []
    counted = Counter(child.look.key for child in below)
    looks = {look.key: look for look in palette.ALL}
    many = len(below) >= STACK_FROM
    note = redacted(node.note) or node.word
    if below:
        bad = counted["failed"] + counted["stopped"]
        note = f"×{len(below)}" + (f" ✗{bad}" if bad else "") + f" · {node.word}"
    return graph.Box(
        key=str(node.id),
        name=node.name,
        look=node.look,
        note=note,
        href=asked.link(f"/steps/{node.id}"),
        bar=[(looks[key], number) for key, number in counted.items()] if below else (),
        stacked=many,
    )


def _index_edges(trees: list[TreeNode], tops: list[Node], known: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Steps of a block are ordered by their index: each level comes after the one before; the root before the first."""
    if not trees or len(tops) < 2 or len(trees) > 1:
        return []
    has_edges = {target for _, target in known}
    levels: dict[int, list[Step]] = {}
    for child in trees[0].children:
        if child.step.type == "default":
            levels.setdefault(child.step.index or 1, []).append(child.step)
    found, before = [], [trees[0].step]
    for _, level in sorted(levels.items()):
        found += [(str(one.id), str(other.id)) for one in before for other in level if str(other.id) not in has_edges]
        before = level
    handlers = [child.step for child in trees[0].children if child.step.type != "default"]
    found += [(str(one.id), str(other.id)) for one in before for other in handlers]
    return found


# timeline -----------------------------------------------------------------------------------------------


def _timeline(asked: Asked, trees: list[TreeNode], at: datetime | None) -> Markup:
    now = at or asked.now
    flat = [(depth, node) for tree in trees for depth, node in _now(tree).walk()][:MOST_ROWS]
    histories = asked.app.reader.histories([node.id for _, node in flat])
    rows = []
    for depth, node in flat:
        assert node.step is not None
        history = [change for change in histories.get(node.id, []) if change.at <= now]
        done = node.step.own_code_done_at
        if spans := spans_of(history, done if done is not None and done <= now else None):
            rows.append(
                timeline.Row(str(node.id), node.name, node.look, spans, min(depth, 6), asked.link(f"/steps/{node.id}"))
            )
    return timeline.draw(rows, now, label="When the steps waited and ran")
