"""A template: the content of a declared workflow as plain data, however it was written (Python or YAML)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from stepwell.model.step import Priority, StepKind, TriggerRule

CONTEXT: Final = "context"  # the root of every path that does not begin with the name of a step
DEFAULT_NAMESPACE: Final = "default"


class Path(msgspec.Struct, frozen=True):
    """A place in the context or in the result of an upstream step: `context.customer.id`, `payment.amount`."""

    root: str  # "context", or the name of a step
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.root, *self.keys))

    @property
    def step(self) -> str | None:
        """The upstream step, if it is one."""
        return None if self.root == CONTEXT else self.root


class Input(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one parameter of a step takes."""

    parameter: str
    source: Path
    type: str = ""  # the annotation, by qualified name
    # `T | None`: if the upstream step was skipped, the step runs with None. Otherwise, it is skipped, too.
    optional: bool = False
    # The upstream step is a map: the value is a list. `list[T | None]` keeps the places of skipped elements.
    is_list: bool = False
    keeps_skipped: bool = False
    # `Outcome[T]` or `list[Outcome[T]]`: state, result and error instead of the result.
    is_outcome: bool = False


class Condition(msgspec.Struct, frozen=True):
    """The value at `path` must equal one of `values`, as typed JSON."""

    path: Path
    values: tuple[Any, ...]


class Each(msgspec.Struct, frozen=True):
    """A map: one child for each element of the list at `source`, passed as `parameter`."""

    parameter: str
    source: Path


class StepTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a template."""

    name: str
    kind: StepKind = "job"
    action: str = ""  # a gate has none
    code: str = ""  # the code behind the action, by qualified name
    returns: str = ""  # the annotation of its result, by qualified name
    inputs: tuple[Input, ...] = ()
    after: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    trigger: TriggerRule = "all_concluded"
    each: Each | None = None
    limit: int | None = None  # how many elements of a map run at once
    expires: float | None = None  # seconds from the opening of a gate
    result_schema: Any = None  # JSON schema of the result (of one element, if it is a map)
    retry_limit: int = 3  # attempts in all
    retryable: bool = True
    skippable: bool = False
    timeout: float = 0
    cooldown: float = 0
    delay: float = 0
    queue: str | None = None
    priority: Priority | None = None
    arguments: Any = {}  # constant arguments (`handler_config` in YAML)

    @property
    def max_retries(self) -> int:
        """Retries beyond the first attempt."""
        return self.retry_limit - 1 if self.retryable else 0

    @property
    def upstream(self) -> tuple[str, ...]:
        """The names of all steps that it depends on: by data, by order, by its condition or by the list of a map."""
        found: dict[str, None] = dict.fromkeys(self.after)
        sources = [each.source for each in self.inputs] + [condition.path for condition in self.conditions]
        if self.each is not None:
            sources.append(self.each.source)
        found.update(dict.fromkeys(path.step for path in sources if path.step is not None))
        return tuple(found)

    @property
    def needed(self) -> tuple[str, ...]:
        """The names of the steps without whose result it cannot run: if one of them is skipped, it is skipped, too."""
        if self.trigger != "all_concluded":
            return ()
        sources = [each.source for each in self.inputs if not each.optional]
        if self.each is not None:
            sources.append(self.each.source)
        return tuple(path.step for path in sources if path.step is not None)


class Template(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A workflow as it was declared; two with the same content have the same hash."""

    namespace: str = DEFAULT_NAMESPACE
    name: str
    version: str = "1"
    description: str = ""
    context_schema: Any = None  # JSON schema; None: any JSON value
    steps: tuple[StepTemplate, ...] = ()
    # Settings by environment and step, as declared; where they are applied, they are gone, and `base_hash` is the hash
    # of the content without them.
    environments: dict[str, dict[str, dict[str, Any]]] = {}
    base_hash: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name} version {self.version}"

    def __iter__(self) -> Iterator[StepTemplate]:
        return iter(self.steps)

    def step(self, name: str) -> StepTemplate:
        """The step of this name; raises KeyError."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)

    def content_hash(self) -> str:
        """A hash of everything that matters for a run: canonical JSON, without description and order of steps.

        It is that of the content before the overrides of an environment.
        """
        if self.base_hash:
            return self.base_hash
        content = msgspec.to_builtins(msgspec.structs.replace(self, description="", environments={}))
        content["steps"] = sorted(content.get("steps", ()), key=lambda step: str(step["name"]))
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()
