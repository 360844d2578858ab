"""Finding the app of a command or a slot: `module:variable`, as with web servers."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from stepwell.model.error_text import describe
from stepwell.model.errors import AppNotFound, DatabaseUnavailable, SchemaError, StepwellError

if TYPE_CHECKING:
    from stepwell.app import Stepwell

_MAIN: Final = ("__main__", "__mp_main__")  # multiprocessing uses the second name in child processes
# Frames between our call and the imported code.
_OURS: Final = (os.path.dirname(os.path.dirname(__file__)) + os.sep, importlib.__file__, "<")


class Loadable:
    """The base of what such a name may stand for, so that the loader need not import it: `Stepwell`."""


def load_app(name: str) -> Stepwell:
    """Import the app. The name must come from the command line or the configuration, never from data."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise AppNotFound(f"{name!r} does not name an app: use module:variable, for example shop.jobs:app")
    app: Any = _module(module_name)
    for part in attribute.split("."):
        if not hasattr(app, part):
            raise AppNotFound(f"module {module_name} has no variable {attribute!r}")
        app = getattr(app, part)
    if callable(app) and not _is_app(app):
        _refuse_arguments(name, app)
        with _as_app_not_found(f"{name} cannot be called"):
            app = app()
    if not _is_app(app):
        raise AppNotFound(
            f"{name} is of type {type(app).__name__}: an app is a Stepwell, or a function that returns one"
        )
    found: Stepwell = app
    return found


def _is_app(value: object) -> bool:
    return isinstance(value, Loadable)


def _module(name: str) -> ModuleType:
    if name in _MAIN:
        return sys.modules.get("__mp_main__", sys.modules["__main__"])
    with _as_app_not_found(f"{name} cannot be imported"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise AppNotFound(f"no module named {name!r}; run this in the project's directory or install it") from None


@contextmanager
def _as_app_not_found(what: str) -> Iterator[None]:
    """Raise AppNotFound with the error and its line; the error in user code stays the cause, with its traceback."""
    try:
        yield
    except (AppNotFound, DatabaseUnavailable, SchemaError):  # their messages already say what to do
        raise
    except (Exception, SystemExit) as error:
        todo = "move that below `if __name__ == '__main__':`" if isinstance(error, SystemExit) else "fix the error"
        error.with_traceback(_user_frames(error.__traceback__))
        raise AppNotFound(f"{what}: {_where(error)}{describe(error)}; nothing was started: {todo}") from error


def _user_frames(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def _where(error: BaseException) -> str:
    """The line to look at: the one with the syntax error, else the last one reached outside of libraries."""
    if isinstance(error, SyntaxError) and error.filename is not None and os.path.exists(error.filename):
        return f"{error.filename}:{error.lineno}: "
    libraries = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib"))
    reached = traceback.extract_tb(error.__traceback__)
    user_lines = [line for line in reached if not line.filename.startswith((*_OURS, *libraries))]
    return "".join(f"{line.filename}:{line.lineno}: " for line in (user_lines or reached)[-1:])


def _refuse_arguments(name: str, maker: Callable[..., object]) -> None:
    try:
        inspect.signature(maker).bind()
    except (TypeError, ValueError) as error:
        raise AppNotFound(
            f"{name} is neither an app nor a function without parameters that returns one ({error})"
        ) from None


def module_name_of(app: Stepwell) -> str:
    """The same name for all processes that run the code: a main program has the name under which others import it."""
    module_name, _, attribute = name_of(app).partition(":")
    if module_name in _MAIN:
        main = sys.modules[module_name]
        spec = getattr(main, "__spec__", None)
        file = getattr(main, "__file__", None)
        if spec is not None and spec.name not in _MAIN:
            module_name = spec.name
        elif file is not None:
            module_name = os.path.splitext(os.path.basename(file))[0]
    return f"{module_name}:{attribute}"


def name_of(app: Stepwell) -> str:
    """The `module:variable` under which another process can import this app."""
    # The main program last: another process would have to import it a second time.
    for module_name, module in sorted(sys.modules.items(), key=lambda item: item[0] in _MAIN):
        for attribute, value in list(vars(module).items()):
            if value is app:
                return f"{module_name}:{attribute}"
    raise StepwellError(
        "other processes, such as the slots of a worker, import the app: assign it to a variable of a module, or run "
        "the worker with executor='thread'"
    )
