"""The walk of a pass: all steps in the order of their creation, up to those that are too young."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from stepwell.operate.retention.options import Rule
from stepwell.store import Database
from stepwell.store.engine import retention as verbs

# Workflows of many steps that one transaction removes: one of them may have thousands of steps.
WORKFLOWS_AT_ONCE: Final = 20


@dataclass(frozen=True, slots=True)
class Page:
    """Some steps of the walk, and the workflows among them that may be over."""

    last_id: int
    is_last: bool
    alone: list[str] = field(default_factory=list)  # workflows of one step
    others: list[str] = field(default_factory=list)

    def parts(self) -> Iterator[list[str]]:
        """The workflows, in parts for one transaction each."""
        if self.alone:
            yield self.alone
        for start in range(0, len(self.others), WORKFLOWS_AT_ONCE):
            yield self.others[start : start + WORKFLOWS_AT_ONCE]


def next_page(database: Database, after: int, rule: Rule, size: int) -> Page:
    """The steps after an id.

    They are numbered as they were created: from the first page on which none was created before `rule.before`, none has
    ended before it. (Plain SQL can give a step another time of creation, so a single young one does not end the walk.)
    """
    steps = database.read(lambda tx: verbs.steps_after(tx, after=after, limit=size))
    if not steps:
        return Page(after, True)
    over = [step for step in steps if step.state.is_terminal and not step.leased and step.updated_at < rule.before]
    return Page(
        steps[-1].id,
        len(steps) < size or all(step.created_at >= rule.before for step in steps),
        [step.workflow_id for step in over if step.alone],
        list(dict.fromkeys(step.workflow_id for step in over if not step.alone)),
    )
