"""The settings of a step, checked and in their stored form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from stepwell.define.definition import JobDefinition
from stepwell.define.drafts import NewStep
from stepwell.define.drafts import problems as problems_of_draft
from stepwell.model import codec
from stepwell.model.errors import UnstorableValue
from stepwell.model.step import StepKind
from stepwell.workflow.declare.words import duration_of, shown, suggestion

_MAX_INT: Final = 2**31 - 1
_YAML_11_BOOLEANS: Final = ("on", "off", "yes", "no", "y", "n")


class BadSetting(ValueError):
    """A value that a setting cannot have; the message says what it can be."""


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        is_old_style = isinstance(value, str) and value.lower() in _YAML_11_BOOLEANS
        raise BadSetting("write true or false" if is_old_style else "expected true or false")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= _MAX_INT:
        raise BadSetting("expected a whole number of at least 1")
    return value


def _seconds(value: Any) -> float:
    seconds = duration_of(value)
    if seconds is None:
        if isinstance(value, str) and ":" in value:
            raise BadSetting('write a number of seconds or a duration with units, like "12m30s" or "12h30m"')
        raise BadSetting('expected a number of seconds or a duration like "30s", "1h30m" or "14d"')
    return seconds


def _optional_seconds(value: Any) -> float | None:
    return None if value is None else _seconds(value)


def _queue(value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or list(problems_of_draft(NewStep(action="a", queue=value)))):
        raise BadSetting("expected the name of a queue")
    return value


def _priority(value: Any) -> str | None:
    if value not in (None, "default", "high"):
        raise BadSetting('expected "default" or "high"')
    return str(value) if value is not None else None


def _arguments(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise BadSetting("expected a mapping from parameters to constant values")
    try:
        plain: dict[str, Any] = codec.decode(codec.encode(dict(value)))
    except UnstorableValue as error:
        raise BadSetting(str(error)) from error
    return plain


READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "retry_limit": _count,
    "retryable": _flag,
    "skippable": _flag,
    "timeout": _seconds,
    "cooldown": _seconds,
    "delay": _seconds,
    "queue": _queue,
    "priority": _priority,
    "limit": _count,
    "expires": _optional_seconds,
    "arguments": _arguments,
}
OF_GATES: Final = ("skippable", "expires")
_INHERITED: Final = ("timeout", "cooldown", "delay", "queue", "priority")


def read_settings(given: Mapping[str, Any], kind: StepKind) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The values to store, and the problems by key.

    >>> read_settings({"timeout": "1m", "retry_limit": 0}, "job")
    ({'timeout': 60.0}, [('retry_limit', 'expected a whole number of at least 1, not 0')])
    """
    values: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for key, value in given.items():
        if key not in READERS:
            problems.append((key, f"unknown setting; {suggestion(key, READERS, 'settings')}"))
        elif kind == "gate" and key not in OF_GATES:
            problems.append((key, "a gate runs no code; remove it"))
        elif kind != "gate" and key == "expires":
            problems.append((key, "only a gate expires; use timeout to limit how long code may run"))
        elif kind == "job" and key == "limit" and value is not None:
            problems.append((key, "only a map has it: add each, or use the job's max_running"))
        elif key == "limit" and value is None:
            continue
        else:
            try:
                values[key] = READERS[key](value)
            except BadSetting as error:
                problems.append((key, f"{error}, not {shown(value)}"))
    return values, problems


def inherited_settings(job: JobDefinition[..., Any]) -> dict[str, Any]:
    """The settings that a step of a registered job has unless it sets them: all but the number of attempts."""
    return {key: job.settings[key] for key in _INHERITED if job.settings.get(key) is not None}
