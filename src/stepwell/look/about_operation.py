"""What an operation was about, in one line."""

from __future__ import annotations

from typing import Any, Final

from stepwell.store.engine.operations import OperationRow, Targets

COUNTED_TARGETS: Final = 1_000  # a list counts no more, and says "1,000+"
_LENGTH: Final = 200


def about_operation(row: OperationRow, targets: Targets | None) -> str:
    """Its parameters, then the step or workflow that it changed, or how many. `row` has no secrets (`shown_operation`).

    >>> from datetime import datetime
    >>> now = datetime(2026, 1, 1)
    >>> def made(kind, **parameters):
    ...     return OperationRow(1, kind, "done", {}, parameters, "operator:ann", None, None, None, None, now, now, now)
    >>> about_operation(made("create_schedule", schedule="nightly"), None)
    'schedule nightly'
    >>> about_operation(made("set_limit", limit="total", name="", maximum=None), None)
    'limit total, no maximum'
    >>> about_operation(made("enqueue", action="mail"), Targets(1, 1, 306, None))
    'action mail, step 306'
    >>> about_operation(made("retry"), Targets(1, 1001, 7, None))
    '1,000+ steps'
    """
    parameters: dict[str, Any] = row.parameters or {}
    shown = {name: value for name, value in parameters.items() if value not in (None, "")}
    parts = [f"{name.replace('_', ' ')} {_text(value)}" for name, value in shown.items()]
    if "maximum" in parameters and "maximum" not in shown:
        parts.append("no maximum")
    if targets is not None and targets.targets:
        parts.append(_targets(targets))
    text = ", ".join(parts)
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}…"


def _targets(targets: Targets) -> str:
    kind, first = ("step", targets.step_id) if targets.step_id is not None else ("workflow", targets.workflow_id)
    if targets.targets == 1:
        return f"{kind} {first}"
    number = f"{COUNTED_TARGETS:,}+" if targets.targets > COUNTED_TARGETS else f"{targets.targets:,}"
    return f"{number} {kind}s"


def _text(value: Any) -> str:
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)
