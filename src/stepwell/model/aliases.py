"""Pydantic models in JSON, under the names by which they are read, which may differ from those they are written under.

A model writes its fields under their `serialization_alias` and reads them from their `validation_alias`; if these
differ, it cannot read its own output. Pydantic is not imported, because it is not a dependency.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

Path: TypeAlias = Sequence[str | int]  # to a value: a name, mostly


def dump(model: Any) -> Any:
    """A model as JSON-compatible data that `model_validate_json` accepts."""
    return _as_it_is_read(model, model.model_dump(mode="json", by_alias=True, round_trip=True))


def _as_it_is_read(value: Any, written: Any) -> Any:
    """The serialized form of a value, with the keys of all models in it renamed to those by which they are read."""
    if getattr(value, "__pydantic_root_model__", False):
        return _as_it_is_read(value.root, written)
    if isinstance(written, list) and isinstance(value, Collection) and len(value) == len(written):
        return [_as_it_is_read(*both) for both in zip(value, written, strict=True)]
    if isinstance(written, dict) and isinstance(value, Mapping) and len(value) == len(written):
        return dict(zip(written, map(_as_it_is_read, value.values(), written.values()), strict=True))
    if not isinstance(written, dict) or not (fields := _fields(value.__class__)):
        return written
    read: dict[str, Any] = {}
    for key, item in written.items():
        name, path = fields.get(key, ("", (key,)))
        _put(read, path, _as_it_is_read(getattr(value, name, None), item))
    return read


@cache
def _fields(kind: type) -> dict[str, tuple[str, Path]]:
    """The fields of a model or dataclass, by the key each is written under: its name, and the path it is read from."""
    config = getattr(kind, "model_config", None) or getattr(kind, "__pydantic_config__", {})
    by_alias = config.get("validate_by_alias") is not False
    found: dict[str, tuple[str, Path]] = {name: (name, (name,)) for name in getattr(kind, "__dataclass_fields__", ())}
    fields = getattr(kind, "model_fields", None) or getattr(kind, "__pydantic_fields__", {})
    for name, field in fields.items():
        alias = field.validation_alias if by_alias else None
        found[field.serialization_alias or name] = (name, (name,) if alias is None else _path(alias))
    return found


def _path(alias: Any) -> Path:
    """Where an alias reads its value: a plain name if it has one, else the first of its paths (`AliasPath`)."""
    paths = [getattr(one, "path", (one,)) for one in getattr(alias, "choices", (alias,))]
    return min(paths, key=len)


def _put(whole: Any, path: Path, value: Any) -> Any:
    """The whole with a value set at a path; missing containers are created."""
    if not path:
        if whole is not None and whole != value:
            raise TypeError("two of its fields are read from the same place and cannot both be stored there")
        return value
    step, *rest = path
    if isinstance(step, str):
        whole = {} if whole is None else whole
        whole[step] = _put(whole.get(step), rest, value)
    else:
        whole = [] if whole is None else whole
        whole += [None] * (max(step + 1, -step) - len(whole))
        whole[step] = _put(whole[step], rest, value)
    return whole
