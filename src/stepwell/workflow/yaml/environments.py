"""The overrides of environments, as YAML has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stepwell.workflow.yaml.document import Value
from stepwell.workflow.yaml.fields import ENVIRONMENT_KEYS, OVERRIDE_KEYS, SETTINGS
from stepwell.workflow.yaml.flaws import Flaws


def read_environments(declared: Value | None, flaws: Flaws) -> dict[str, dict[str, dict[str, Any]]]:
    """By environment and step; each environment has steps as a mapping, or as a list with names."""
    if declared is None or declared.data is None:
        return {}
    if not isinstance(declared.data, dict):
        flaws.add(declared, "environments: expected a mapping from the names of environments to steps")
        return {}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name, environment in declared.keys.items():
        flaws.place(0, {f"environments.{name}": environment.line})
        flaws.check_keys(environment, ENVIRONMENT_KEYS, f"environment {name!r}")
        found[name] = dict(_overrides(name, environment, flaws))
    return found


def _overrides(environment: str, value: Value, flaws: Flaws) -> Iterator[tuple[str, dict[str, Any]]]:
    for key in ENVIRONMENT_KEYS:
        steps = value.keys.get(key)
        if steps is None:
            continue
        named: Sequence[tuple[Any, Value]] = list(steps.keys.items())
        if isinstance(steps.data, list):
            named = [(item.keys["name"].data if "name" in item.keys else None, item) for item in steps.items]
        for name, step in named:
            if not isinstance(name, str) or not isinstance(step.data, dict):
                flaws.add(step, f"environment {environment!r}: expected the name of a step and its settings")
                continue
            flaws.check_keys(step, ("name", *OVERRIDE_KEYS), f"environment {environment!r}: step {name!r}")
            names = {**SETTINGS, "expires": "expires"}
            yield name, {names[key]: inner.data for key, inner in step.keys.items() if key in names}
