"""A request for a workflow: its context, who asks and why, and what makes two requests the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias, TypedDict

import msgspec

from stepwell.model.errors import InvalidRequest
from stepwell.workflow.declare.words import shown, suggestion
from stepwell.workflow.steps import DeclaredStep
from stepwell.workflow.template import Template

Identity: TypeAlias = Literal["unique", "hash", "key"]

_MAX_TEXT: Final = 255
_MAX_REASON: Final = 4_000


class RequestOptions(TypedDict, total=False):
    """The keywords of `workflow.start`."""

    initiator: str | None
    source_system: str | None
    reason: str | None
    tags: Sequence[str]
    bypass_steps: Sequence[str | DeclaredStep[Any]]
    identity: Literal["unique", "hash"]
    key: str | None
    who: str | None  # starts it by hand: it is recorded as an operation, with the reason


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that was checked. `identity` says which other request is its duplicate: none, one with the same
    hash, or one with the same key."""

    context: Any
    initiator: str | None = None
    source_system: str | None = None
    reason: str | None = None
    tags: tuple[str, ...] = ()
    bypass_steps: tuple[str, ...] = ()
    identity: Identity = "unique"
    key: str | None = None


def make_request(template: Template, context: Any, options: RequestOptions) -> Request:
    """Check the keywords of a start; the context was checked before. Raises InvalidRequest with every problem."""
    problems: list[str] = []
    if unknown := sorted(options.keys() - RequestOptions.__annotations__.keys()):
        hints = (f"{name!r}: {suggestion(name, RequestOptions.__annotations__, 'options')}" for name in unknown)
        problems.append(f"unknown option {', '.join(hints)}")
    for name, limit in {
        "initiator": _MAX_TEXT,
        "source_system": _MAX_TEXT,
        "reason": _MAX_REASON,
        "key": _MAX_TEXT,
    }.items():
        value = options.get(name)
        if value is not None and not _is_text(value, limit, multiline=name == "reason"):
            problems.append(f"{name} is {shown(value)}: expected text of 1 to {limit} characters")
    tags = _tags(options.get("tags", ()), problems)
    bypass = _bypassed(template, options.get("bypass_steps", ()), problems)
    identity: Identity = options.get("identity", "unique")
    key = options.get("key")
    if identity not in ("unique", "hash"):
        problems.append(
            f"identity is {shown(identity)}: expected 'unique' or 'hash'; for a key of your own, pass key=…"
        )
    elif key is not None and identity == "hash":
        problems.append("identity='hash' and key exclude each other; pass one of them")
    if problems:
        raise InvalidRequest(f"{template}: {'; '.join(problems)}; nothing was started")
    return Request(
        context=context,
        initiator=options.get("initiator"),
        source_system=options.get("source_system"),
        reason=options.get("reason"),
        tags=tags,
        bypass_steps=bypass,
        identity=identity if key is None else "key",
        key=key,
    )


def identity_of(template: Template, request: Request) -> str | None:
    """What must be unique among all workflows; None if nothing must be. A key belongs to its namespace and name.

    A hash covers namespace, name, context and bypassed steps: neither the version nor who asked, and why.
    """
    if request.identity == "unique":
        return None
    if request.identity == "key":
        return f"{template.namespace}.{template.name} key:{request.key}"
    content = [template.namespace, template.name, _normal(request.context), sorted(request.bypass_steps)]
    return f"hash:{hashlib.sha256(msgspec.json.encode(content, order='deterministic')).hexdigest()}"


def _normal(value: Any) -> Any:
    """Equal JSON in one form: 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _normal(item) for key, item in value.items()}
    return [_normal(item) for item in value] if isinstance(value, list) else value


def _tags(tags: Any, problems: list[str]) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Sequence | set | frozenset):
        problems.append(f"tags is {shown(tags)}: expected a list of texts")
        return ()
    problems += [
        f"tag {shown(tag)}: expected text of 1 to {_MAX_TEXT} characters"
        for tag in tags
        if not _is_text(tag, _MAX_TEXT)
    ]
    return tuple(dict.fromkeys(tags)) if not problems else ()


def _bypassed(template: Template, names: Any, problems: list[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence | set | frozenset):
        problems.append(f"bypass_steps is {shown(names)}: expected a list of steps")
        return ()
    steps = {step.name: step for step in template}
    skippable = [step.name for step in template if step.skippable]
    found: dict[str, None] = {}
    for each in names:
        name = each.name if isinstance(each, DeclaredStep) else each
        if name not in steps:
            problems.append(f"bypass_steps: unknown step {shown(name)}; {suggestion(str(name), steps, 'steps')}")
        elif name not in skippable:
            can = ", ".join(skippable) or "none"
            problems.append(f"bypass_steps: step {name!r} is not skippable; skippable steps: {can}")
        else:
            found[name] = None
    return tuple(sorted(found))


def _is_text(value: Any, limit: int, *, multiline: bool = False) -> bool:
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        return False
    return all(line.isprintable() for line in value.splitlines()) if multiline else value.isprintable()
