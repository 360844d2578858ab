"""An explanation as lines: the step, the steps behind it, the root causes, and what helps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from stepwell.cli.output import Column, Output, of_state
from stepwell.cli.text import age, exact

if TYPE_CHECKING:
    from stepwell.look.explain import Explanation, RootCause

# Steps behind a step, and root causes, that are written; --json has more.
LINES: Final = 10


def write_explanation(output: Output, found: Explanation, now: datetime) -> None:
    output.line((f"step {found.step_id} ", "bold"), (found.name, "bold"), "  ", of_state(found.state))
    if len(found.obstacles) < 2:
        output.line(found.obstacles[0].message if found.obstacles else found.summary)
    else:
        output.line(f"waiting for {len(found.obstacles)} conditions:")
        columns = [Column("CONDITION"), Column("REASON", folds=True), Column("CHANGES", right=True)]
        output.table(columns, ([o.condition, o.message, age(o.changes_at, now)] for o in found.obstacles))
    for obstacle in found.afterwards if found.obstacles else ():  # else the summary has them
        output.line(f"after that: {obstacle.message}")
    if found.behind:
        output.heading("Behind it")
        for step in found.behind[:LINES]:
            output.line(f"  step {step.step_id} {step.name} (", of_state(step.state), f"): {step.summary}")
        _write_more(output, len(found.behind) - LINES + found.behind_more)
    if found.behind:
        _write_causes(output, found.roots, found.roots_more)
    _write_outlook(output, found, now)


def write_roots(output: Output, roots: Sequence[RootCause], more: int) -> None:
    """Root causes, and the commands that remove them."""
    _write_causes(output, roots, more)
    if advice := _advice(roots):
        output.line()
        _write_advice(output, advice)


def _write_causes(output: Output, roots: Sequence[RootCause], more: int) -> None:
    if roots:
        output.heading("Root causes")
        for root in roots[:LINES]:
            output.line(f"  {_steps(root.steps, root.more)}{' later' if root.is_later else ''}: {root.message}")
        _write_more(output, len(roots) - LINES + more)


def _write_more(output: Output, more: int) -> None:
    if more > 0:
        output.line((f"  ... {more:,} more", "dim"))


def _steps(ids: Sequence[int], more: int) -> str:
    text = f"{'step' if len(ids) + more == 1 else 'steps'} {', '.join(map(str, ids))}"
    return f"{text}, ... {more:,} more" if more else text


def _write_outlook(output: Output, found: Explanation, now: datetime) -> None:
    advice = _advice(found.roots)
    if found.expected_at is None and not advice:
        return
    output.line()
    if found.expected_at is not None:
        # A gate that expires fails: its moment is no promise.
        word = (
            "Expected at" if all(root.changes_at and root.condition != "gate" for root in found.roots) else "Not before"
        )
        output.line(f"{word} {exact(found.expected_at, now)}")
    _write_advice(output, advice)


def _write_advice(output: Output, advice: list[tuple[str, ...]]) -> None:
    for commands in advice[:LINES]:
        output.line(("Try: " + " or ".join(commands), "dim"))


def _advice(roots: Sequence[RootCause]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(root.advice for root in roots if root.advice))
