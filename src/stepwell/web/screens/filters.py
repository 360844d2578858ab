"""The filters of a list in its address: the same names as the options of `stepwell steps`."""

from __future__ import annotations

from typing import Any, Final

from stepwell.model.errors import StepwellError
from stepwell.web.screens.asked import Asked, id_of
from stepwell.web.screens.commands import command

PLAIN: Final = ("action", "queue", "group", "host", "reason", "fingerprint", "workflow")
NUMBERS: Final = ("parent", "cause")
NAMES: Final = (*PLAIN, *NUMBERS, "state", "status", "throttled", "relatable")


def filters_of(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """The filters that `app.lists` and `app.operations` take."""
    found: dict[str, Any] = {}
    for several in ("state", "status"):
        if values := [value for name, value in pairs if name == several and value]:
            found[several] = values
    for name, value in pairs:
        if not value:
            continue
        if name in PLAIN:
            found[name] = value
        elif name in NUMBERS:
            found[name] = _number(name, value)
        elif name == "throttled":
            found[name] = True
        elif name == "relatable":
            kind, colon, of = value.partition(":")
            if not colon:
                raise StepwellError(f"the filter relatable is {value!r}: write it as type:id, like order:42")
            found["relatable"] = (kind, of)
        elif name.startswith("args.") and len(name) > 5:
            found.setdefault("args", {})[name[5:]] = value
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


def refuse_secrets(asked: Asked, pairs: list[tuple[str, str]]) -> None:
    """What is not shown cannot be found out by searching for it, nor by acting on what is found."""
    for name, _ in pairs:
        if name.startswith("args.") and any(map(asked.app.redaction.is_secret, name.split(".")[1:])):
            raise StepwellError(f"{name[:100]} holds a secret: it is not shown, and cannot be searched for")


def command_of(pairs: list[tuple[str, str]], *words: str, **more: Any) -> str:
    options: dict[str, Any] = {}
    for name, value in pairs:
        if name.startswith("args."):
            options.setdefault("arg", []).append(f"{name[5:]}={value}")
        elif name == "throttled":
            options[name] = True
        else:
            options.setdefault(name, []).append(value)
    return command(*words, **options, **more)


def _number(name: str, value: str) -> int:
    found = id_of(value)
    if found is None:
        raise StepwellError(f"the filter {name} is {value[:100]!r}: write the id of a step")
    return found
