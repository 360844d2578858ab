"""A tree of steps as lines of text, the same for `stepwell tree` and for the demo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stepwell.cli.output import Span, of_state
from stepwell.cli.text import shorten
from stepwell.look.palette import SIGNS, STYLES
from stepwell.model.states import State
from stepwell.model.step import Step

if TYPE_CHECKING:
    from stepwell.look.reader import TreeNode

_REASONS: Final = {
    "parent_skipped": "with its parent",
    "parent_cancelled": "with its parent",
    "parent_failed": "with its parent",
    "parent_not_runnable": "its parent cannot run",
    "predecessor_failed": "an earlier step failed",
    "dormant": "runs only if a step of its block fails",
    "waiting_for_children": "waits for its children",
    "children_failed": "not all of its children concluded",
}


def tree_lines(top: TreeNode, limit: int | None = None) -> Iterator[list[Span]]:
    """One line per step, children below their parents; children beyond `limit` are only counted."""
    stack: list[tuple[TreeNode | list[TreeNode], str, str]] = [(top, "", "")]
    while stack:
        node, lead, below = stack.pop()
        if isinstance(node, list):
            yield [(lead, "bright_black"), (f"… {_counts(node)}", "dim")]
            continue
        yield [(lead, "bright_black"), *step_line(node.step)]
        shown: list[TreeNode | list[TreeNode]] = list(node.children)
        if limit is not None and len(shown) > limit + 1:
            shown = [*node.children[:limit], node.children[limit:]]
        for place, child in reversed(list(enumerate(shown))):
            last = place == len(shown) - 1
            stack.append((child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")))


def _counts(nodes: list[TreeNode]) -> str:
    states = Counter(node.step.state for node in nodes)
    return f"{len(nodes):,} more: " + ", ".join(f"{number:,} {state}" for state, number in states.most_common())


def step_line(step: Step) -> list[Span]:
    """A step in one line: symbol, id, name, state and notes."""
    return [
        (f"{SIGNS[step.state]} ", STYLES[step.state]),
        (f"{step.id} ", "bright_black"),
        shorten(step.name, 60),
        "  ",
        of_state(step.state),
        *((f" · {note}", "dim") for note in _notes(step)),
    ]


def _notes(step: Step) -> Iterator[str]:
    if step.type == "resolve-exception":
        yield "exception handler"
    if step.parent_step_id is not None and (step.index or 1) > 1:
        yield f"index {step.index}"
    if step.priority == "high" and step.parent_step_id is None:
        yield "high priority"
    if step.attempts > 1:
        yield f"attempt {step.attempts}"
    if step.state is State.FAILED and step.error_message and step.reason not in _REASONS:
        yield shorten(step.error_message, 60)
    elif step.reason in _REASONS:
        yield _REASONS[step.reason]
    elif step.reason and step.state is not State.COMPLETED:
        yield shorten(step.reason, 60)
