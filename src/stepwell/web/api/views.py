"""What is shown of steps, workflows and operations: without secrets."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from stepwell.look.lists import StepRow
from stepwell.look.reader import TreeNode
from stepwell.model.secrets import Redaction
from stepwell.model.step import Step

T = TypeVar("T")

ERROR_SHOWN: Final = 300
_ROW_FIELDS: Final = tuple(field for field in StepRow.__struct_fields__ if field != "error")


class ItemsPage(Struct, Generic[T], kw_only=True):
    """A page; `next` is the value of `before` for the next one, null on the last."""

    items: list[T]
    next: int | str | None = None


class TreeRow(Struct):
    """A step of a tree, with its distance from the top."""

    depth: int
    step: StepRow


class Done(Struct):
    """What an action did: the ids of the steps that changed with it."""

    steps: list[int] = []


def row_of(step: Step, redaction: Redaction) -> StepRow:
    """A step as a list shows it."""
    error = None if step.error_message is None else redaction.text(step.error_message)[:ERROR_SHOWN]
    values: dict[str, Any] = {field: getattr(step, field) for field in _ROW_FIELDS}
    return StepRow(**values | {"reason": redaction.text(step.reason)}, error=error)


def tree_rows(top: TreeNode, redaction: Redaction) -> list[TreeRow]:
    """The steps in the order of the tree: some readers of JSON limit its nesting."""
    found: list[TreeRow] = []
    stack = [(top, 0)]
    while stack:
        node, depth = stack.pop()
        found.append(TreeRow(depth, row_of(node.step, redaction)))
        stack.extend((child, depth + 1) for child in reversed(node.children))
    return found


def page(items: list[T], limit: int, key: Any = lambda item: item.id) -> ItemsPage[T]:
    """A page of at most `limit` items; a full one may have a next."""
    return ItemsPage(items=items, next=key(items[-1]) if len(items) == limit else None)


def redacted_struct(value: Any, redaction: Redaction) -> Any:
    """Any record as plain values, without secrets."""
    return redaction.value(msgspec.to_builtins(value))
