"""A draft: a step that is not created yet, and the checks that need no database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from stepwell.model import codec
from stepwell.model.errors import InvalidStep
from stepwell.model.features import BelongsTo
from stepwell.model.states import State
from stepwell.model.step import Priority, Step, StepKind, StepRef, StepType, TriggerRule
from stepwell.model.suggest import refuse_unknown
from stepwell.model.times import MAX_SECONDS, problem_of_moment

if TYPE_CHECKING:
    from msgspec import StructMeta
else:
    StructMeta = type(msgspec.Struct)  # older versions do not export it

MAX_NAME: Final = 255
_MAX_INT: Final = 2**31 - 1


class Planned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a declared workflow adds to a step: its place in the template, and the state that it starts in."""

    template: str
    kind: StepKind = "job"
    element: int | None = None
    plan: str | None = None  # JSON
    undecided: Literal["always", "if_skipped"] | None = None
    state: State = State.PENDING
    reason: str | None = None
    response: str | None = None  # JSON


class _FieldNames(StructMeta):
    """Suggests the right name for a misspelt field."""

    def __call__(cls, *args: Any, **fields: Any) -> Any:  # noqa: N805 - of a metaclass
        if args:
            raise InvalidStep("NewStep takes no positional arguments: NewStep(action='mail', arguments={'to': 'ann'})")
        try:
            return super().__call__(**fields)
        except TypeError:
            refuse_unknown("NewStep", fields, cls.__struct_fields__, "field")
            raise


class NewStep(msgspec.Struct, frozen=True, eq=False, kw_only=True, metaclass=_FieldNames):
    """A step to create. `parent` and `depends_on` may be existing steps, or other `NewStep`s of the same call.

    Settings that are None are as the job declares them, else the general defaults.

    >>> fetch = NewStep(action="fetch", arguments={"symbol": "BTC"})
    >>> store = NewStep(action="store", depends_on=[fetch])
    """

    action: str
    arguments: Any = {}
    uuid: str | None = None  # generated if not given
    parent: StepLike | None = None
    block: str | None = None
    child_block: str | None = None
    index: int | None = None
    type: StepType = "default"
    label: str | None = None
    depends_on: Sequence[StepLike] = ()
    trigger_rule: TriggerRule = "all_concluded"
    workflow: str | None = None
    queue: str | None = None
    group: str | None = None
    priority: Priority | None = None  # None: as declared, or high below a high parent
    max_retries: int | None = None
    timeout: float | None = None
    cooldown: float | None = None
    delay: float | timedelta | None = None
    dispatch_after: datetime | None = None
    relatable: tuple[str, str | int] | None = None
    key: str | None = None
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    belongs_to: BelongsTo | None = None  # set by the feature that follows its changes
    planned: Planned | None = None  # set for the steps of declared workflows

    @property
    def identity(self) -> int:
        """The `id()` of the draft that other drafts refer to."""
        return id(self)


class ResolvedStep(NewStep, frozen=True, eq=False, kw_only=True):
    """A draft with all settings resolved; what neither the caller nor the job declares has the general default."""

    priority: Priority | None = None  # that of the parent or the block if it is high, else "default"
    max_retries: int = 3
    timeout: float = 0.0
    cooldown: float = 0.0
    concurrency_limit: int = 1
    made_of: NewStep | None = None
    unresolved: tuple[str, ...] = ()  # what has the general default because no worker has recorded the job yet

    @property
    def identity(self) -> int:
        return id(self if self.made_of is None else self.made_of)


# Without the suggestions for misspelt names, which double its cost: for fields that are known to exist.
resolved_step: Final[Callable[..., ResolvedStep]] = partial(StructMeta.__call__, ResolvedStep)

StepLike: TypeAlias = Step | StepRef | int | str | NewStep


_NO_SETTINGS: Final = ("action", "arguments", "belongs_to", "planned")
SETTINGS: Final = tuple(name for name in NewStep.__struct_fields__ if name not in _NO_SETTINGS)
_settings_of: Final = attrgetter(*SETTINGS)
_DEFAULTS: Final[tuple[Any, ...]] = _settings_of(NewStep(action="any"))
_RESOLVED_DEFAULTS: Final[tuple[Any, ...]] = _settings_of(ResolvedStep(action="any"))


def _defaults_of(draft: NewStep) -> tuple[Any, ...]:
    return _RESOLVED_DEFAULTS if isinstance(draft, ResolvedStep) else _DEFAULTS


def non_default_settings(draft: NewStep) -> dict[str, Any]:
    """The settings of a draft that differ from the defaults.

    >>> non_default_settings(NewStep(action="fetch", timeout=5.0))
    {'timeout': 5.0}
    """
    settings = zip(SETTINGS, _settings_of(draft), _defaults_of(draft), strict=True)
    return {name: value for name, value, default in settings if value != default}


def not_a_draft(call: str, value: object) -> str | None:
    """What is wrong with a value that should be a draft, or None."""
    if isinstance(value, NewStep):
        return None
    if isinstance(value, Step | StepRef):
        return f"{call}({value!r}): that step already exists; pass a draft of a new one, such as fetch.draft(…)"
    shown = getattr(value, "action", None) or _shown(value)  # a job, by its name
    return f"{call}({shown}): pass drafts of new steps, such as fetch.draft(…), or lists of drafts"


def all_drafts(call: str, given: Any) -> list[NewStep]:
    """The drafts that were passed to a call; raises if there is anything else."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidStep(f"{call}({_shown(given)}): pass a list of drafts; nothing was written")
    drafts = list(given)
    for draft in drafts:
        if (problem := not_a_draft(call, draft)) is not None:
            raise InvalidStep(f"{problem}; nothing was written")
    return drafts


def check(draft: NewStep) -> None:
    """Reject an invalid draft, as far as that needs no database."""
    if is_name(draft.action) and all(map(is_, _settings_of(draft), _defaults_of(draft))):
        return  # all defaults, like almost every draft
    if found := list(problems(draft)):
        raise InvalidStep(f"step {_shown(draft.action)} cannot be created: {'; '.join(found)}")


def due(draft: NewStep, now: datetime) -> datetime | None:
    """The time before which it must not be dispatched."""
    if draft.dispatch_after is not None:
        return draft.dispatch_after
    if draft.delay is None:
        return None
    return now + (draft.delay if isinstance(draft.delay, timedelta) else timedelta(seconds=draft.delay))


def encode_arguments(draft: NewStep) -> str:
    """Its arguments as a JSON object: they become the keyword arguments of the job."""
    text = codec.encode(draft.arguments)
    if not text.startswith("{"):
        raise InvalidStep(
            f"step {draft.action!r} cannot be created: arguments must be a dict of names and values, "
            f"not {_shown(draft.arguments)}"
        )
    return text


def problems(draft: NewStep) -> Iterator[str]:
    """Everything that is wrong with it."""
    for name in ("action", "label", "queue", "group", "key", "concurrency_key"):
        text = getattr(draft, name)
        if text is None and name != "action":
            continue
        if not is_name(text):
            yield f"{name} must be 1 to {MAX_NAME} printable characters"
    if draft.type not in ("default", "resolve-exception"):
        yield f"type is {draft.type!r}, not 'default' or 'resolve-exception'"
    may_lack = not isinstance(draft, ResolvedStep)
    if draft.priority not in (None, "default", "high"):
        yield f"priority is {draft.priority!r}, not 'default' or 'high'"
    if draft.trigger_rule not in ("all_concluded", "all_ended", "any_concluded"):
        yield f"trigger_rule is {draft.trigger_rule!r}, not 'all_concluded', 'all_ended' or 'any_concluded'"
    if draft.index is not None and not (_is_int(draft.index) and 0 <= draft.index <= _MAX_INT):
        yield f"index is {_shown(draft.index)}, not a whole number between 1 and {_MAX_INT}"
    if not _is_count(draft.concurrency_limit, 1, may_lack):
        yield f"concurrency_limit is {_shown(draft.concurrency_limit)}, not a whole number between 1 and {_MAX_INT}"
    if not _is_count(draft.max_retries, 0, may_lack):
        yield f"max_retries is {_shown(draft.max_retries)}, not a whole number between 0 and {_MAX_INT}"
    for name in ("timeout", "cooldown"):
        seconds = getattr(draft, name)
        if seconds is None and may_lack:
            continue
        if not isinstance(seconds, int | float) or not 0 <= seconds <= MAX_SECONDS:
            yield f"{name} is {_shown(seconds)}, not a number of seconds between 0 and a hundred years"
    if draft.delay is not None or draft.dispatch_after is not None:
        yield from _problems_of_time(draft)
    if draft.relatable is not None and not _is_relatable(draft.relatable):
        yield f"relatable is {_shown(draft.relatable)}, not a pair of a type and an id of at most {MAX_NAME} characters"
    if draft.parent is not None and not _is_steplike(draft.parent):
        yield f"parent is {_shown(draft.parent)}, not a step"
    if draft.depends_on != () and not _is_collection_of_steps(draft.depends_on):
        yield f"depends_on is {_shown(draft.depends_on)}, not a list of steps"
    elif draft.type == "resolve-exception" and draft.depends_on:
        yield "an exception handler has no DAG edges: it is promoted when its block fails"


def _problems_of_time(draft: NewStep) -> Iterator[str]:
    if draft.delay is not None and draft.dispatch_after is not None:
        yield "delay and dispatch_after exclude each other"
    elif draft.delay is not None:
        seconds: Any = draft.delay.total_seconds() if isinstance(draft.delay, timedelta) else draft.delay
        if not isinstance(seconds, int | float) or not -MAX_SECONDS <= seconds <= MAX_SECONDS:
            yield f"delay is {_shown(draft.delay)}, not a time of at most a hundred years"
    elif (problem := problem_of_moment(draft.dispatch_after)) is not None:
        yield f"dispatch_after {problem}"


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any, least: int, may_lack: bool) -> bool:
    return (may_lack and value is None) or (_is_int(value) and least <= value <= _MAX_INT)


def is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME and value.isprintable()


def _is_relatable(value: object) -> bool:
    if not isinstance(value, tuple | list) or len(value) != 2:
        return False
    return is_name(value[0]) and (is_name(value[1]) or (_is_int(value[1]) and abs(value[1]) < 2**63))


def _is_steplike(value: object) -> bool:
    return isinstance(value, NewStep | Step | StepRef | str) or _is_int(value)


def _is_collection_of_steps(value: object) -> bool:
    """Not a generator, which could be iterated only once."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
        return False
    return all(map(_is_steplike, value))


def _shown(value: object) -> str:
    """A value, shortened for an error message."""
    return codec.clean_text(ascii(value), 80)
