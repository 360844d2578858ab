"""Resolving settings: what a step leaves out is taken from what its job declares, else from the general defaults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from stepwell.define.drafts import MAX_NAME, NewStep, ResolvedStep, is_name, non_default_settings
from stepwell.define.keys import KeyTemplate
from stepwell.model import codec
from stepwell.model.errors import InvalidStep
from stepwell.store import Transaction
from stepwell.store.engine import actions
from stepwell.store.engine.actions import Declaration

_DECLARED: Final = ("queue", "max_retries", "timeout", "cooldown", "concurrency_limit")
DECLARABLE: Final = (*_DECLARED, "priority", "concurrency_key")


def resolved(tx: Transaction, drafts: Sequence[NewStep], arguments: Sequence[str]) -> list[ResolvedStep]:
    """The drafts, those of jobs that are not registered with this app as the recorded declarations say."""
    unresolved = {draft.action for draft in drafts if not isinstance(draft, ResolvedStep)}
    declared = declarations_for(tx, unresolved) if unresolved else {}
    return [
        draft if isinstance(draft, ResolvedStep) else resolve_settings(draft, text, declared.get(draft.action))
        for draft, text in zip(drafts, arguments, strict=True)
    ]


def declarations_for(tx: Transaction, names: Iterable[str]) -> dict[str, Declaration]:
    """What the jobs with these names declare, as far as a worker has recorded it."""
    return {row.name: row for row in actions.declared_actions(tx, names=sorted(names))}


def resolve_settings(draft: NewStep, arguments: str, declared: Declaration | None) -> ResolvedStep:
    """The draft with all its settings resolved; `arguments` are its own, as JSON."""
    settings: dict[str, Any] = {}
    if declared is None:
        settings["unresolved"] = tuple(name for name in DECLARABLE if getattr(draft, name) is None)
    else:
        settings = {name: getattr(declared, name) for name in _DECLARED}
        if declared.priority == "high":
            settings["priority"] = "high"
        if draft.concurrency_key is None:
            settings["concurrency_key"] = _key(declared, arguments)
    settings |= non_default_settings(draft)
    return ResolvedStep(
        action=draft.action, arguments=draft.arguments, made_of=draft, belongs_to=draft.belongs_to, **settings
    )


def _key(declared: Declaration, arguments: str) -> str | None:
    if declared.key_function is not None:
        raise InvalidStep(
            f"the concurrency key of {declared.name!r} is a function ({declared.key_function}), which only a program "
            "with the code can call: set concurrency_key, or declare it as a template like 'customer:{customer}'"
        )
    if declared.concurrency_key is None or "{" not in declared.concurrency_key:
        return declared.concurrency_key
    template = KeyTemplate.of(declared.concurrency_key)
    if isinstance(template, str):
        raise InvalidStep(f"the concurrency key {declared.concurrency_key!r} of {declared.name!r}: {template}")
    key = template(**codec.decode(arguments))
    if not is_name(key):
        raise InvalidStep(
            f"its concurrency key {key[:80]!r} (of {template.text!r}) is not 1 to {MAX_NAME} printable characters"
        )
    return key
