"""The filters of a list in its address: the same names as the options of `stepwell steps`."""

from __future__ import annotations

from typing import Any, Final

from stepwell.model.errors import StepwellError
from stepwell.web.screens.asked import Asked
from stepwell.web.screens.commands import command

PLAIN: Final = ("action", "queue", "group", "host", "reason", "fingerprint", "workflow", "parent")
NAMES: Final = (*PLAIN, "state", "relatable")


def filters_of(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """The filters that `app.lists` and `app.operations` take."""
    found: dict[str, Any] = {}
    states = [value for name, value in pairs if name == "state" and value]
    if states:
        found["state"] = states
    for name, value in pairs:
        if not value:
            continue
        if name in PLAIN:
            found[name] = value
        elif name == "relatable":
            kind, colon, of = value.partition(":")
            if not colon:
                raise StepwellError(f"the filter relatable is {value!r}: write it as type:id, like order:42")
            found["relatable"] = (kind, of)
        elif name.startswith("args.") and len(name) > 5:
            found.setdefault("args", {})[name[5:]] = value
    if "parent" in found:
        found["parent"] = _number("parent", found["parent"])
    return found


def pairs_of(asked: Asked) -> list[tuple[str, str]]:
    """What of the address is a filter. `arg=path=value` is what the form sends for `args.path=value`."""
    found = []
    for name, value in asked.query:
        if name == "arg":
            path, equals, wanted = value.partition("=")
            if equals and path.strip():
                found.append((f"args.{path.strip().removeprefix('args.')}", wanted.strip()))
        elif value and (name in NAMES or name.startswith("args.")):
            found.append((name, value))
    return found


def command_of(pairs: list[tuple[str, str]], *words: str, **more: Any) -> str:
    options: dict[str, Any] = {}
    for name, value in pairs:
        if name.startswith("args."):
            options.setdefault("arg", []).append(f"{name[5:]}={value}")
        else:
            options.setdefault(name, []).append(value)
    return command(*words, **options, **more)


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal()):
        raise StepwellError(f"the filter {name} is {value!r}: write the id of a step")
    return int(value)
