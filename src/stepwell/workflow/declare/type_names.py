"""Code and types by qualified name, as they enter the content of a template."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from pathlib import PurePath
from typing import Any, Final

_MAIN: Final = ("__main__", "__mp_main__")  # multiprocessing uses the second name in child processes
UNION_ORIGINS: Final = (typing.Union, types.UnionType)


def code_name(code: Any) -> str:
    """The qualified name of a function or class.

    >>> code_name(PurePath)
    'pathlib.PurePath'
    """
    named = inspect.unwrap(code)
    return f"{_module_of(named)}.{getattr(named, '__qualname__', type(named).__qualname__)}"


def type_name(hint: Any) -> str:
    """An annotation, by qualified names.

    >>> type_name(list[PurePath] | None), type_name(dict[str, typing.Any]), type_name(typing.Literal["a", 1])
    ('list[pathlib.PurePath] | None', 'dict[str, Any]', "Literal['a', 1]")
    """
    if hint is None or hint is type(None):
        return "None"
    if hint is inspect.Parameter.empty:
        return ""
    if isinstance(hint, str):
        return hint
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return type_name(arguments[0])
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin in UNION_ORIGINS:
        members = sorted(arguments, key=lambda member: member is type(None))  # None last
        return " | ".join(map(type_name, members))
    if origin is not None:
        inner = ", ".join(type_name(each) if not isinstance(each, list) else "..." for each in arguments)
        return f"{_plain_name(origin)}[{inner}]"
    return _plain_name(hint)


def _plain_name(hint: Any) -> str:
    if hint is Any or hint is Ellipsis:
        return "Any" if hint is Any else "..."
    name = getattr(hint, "__qualname__", None) or getattr(hint, "__name__", None)
    if name is None:
        return str(hint)
    module = _module_of(hint)
    return name if module in ("builtins", "typing") else f"{module}.{name}"


def _module_of(named: Any) -> str:
    """Its module. The main program has the name under which another program would import it, so that its templates
    are the same in both."""
    module = str(getattr(named, "__module__", "") or "")
    if module not in _MAIN:
        return module
    main = sys.modules.get(module)
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    return PurePath(file).stem if file else module
