"""Finding the app that a command or a slot is to work for: `module:name`, as people know it from web servers."""

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

_MAIN: Final = ("__main__", "__mp_main__")  # the second is what another process calls the first
# What an import passes through before it comes to the code that is imported.
_OURS: Final = (os.path.dirname(os.path.dirname(__file__)) + os.sep, importlib.__file__, "<")


def load_app(name: str) -> Stepwell:
    """Import the app. The name comes from the person who starts the program, never from data."""
    from stepwell.app import Stepwell

    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise AppNotFound(f"{name!r} does not name an app: say module:variable, for example shop.jobs:app")
    app: Any = _module(module_name)
    for part in attribute.split("."):
        if not hasattr(app, part):
            raise AppNotFound(f"{module_name} has no {attribute!r}: which of its variables is the app?")
        app = getattr(app, part)
    if callable(app) and not isinstance(app, Stepwell):
        _refuse_arguments(name, app)
        with _telling_what_failed(f"{name} cannot be called"):
            app = app()
    if not isinstance(app, Stepwell):
        raise AppNotFound(
            f"{name} is of type {type(app).__name__}: an app is a Stepwell, or a function that returns one"
        )
    return app


def _module(name: str) -> ModuleType:
    if name in _MAIN:
        return sys.modules.get("__mp_main__", sys.modules["__main__"])
    with _telling_what_failed(f"{name} cannot be imported"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise AppNotFound(f"there is no module {name!r} to import here") from None


@contextmanager
def _telling_what_failed(what: str) -> Iterator[None]:
    """Say of an error in somebody's code what it is and where; it stays the cause, with its traceback."""
    try:
        yield
    except (AppNotFound, DatabaseUnavailable, SchemaError):  # these say themselves what can be done
        raise
    except (Exception, SystemExit) as error:
        todo = "keep that below `if __name__ == '__main__':`" if isinstance(error, SystemExit) else "mend it"
        error.with_traceback(_of_their_code(error.__traceback__))
        raise AppNotFound(f"{what}: {_where(error)}{describe(error)}; nothing was started: {todo}") from error


def _of_their_code(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def _where(error: BaseException) -> str:
    """The line to look at: the one that cannot be read, else the last that was reached outside of libraries."""
    if isinstance(error, SyntaxError) and error.filename is not None and os.path.exists(error.filename):
        return f"{error.filename}:{error.lineno}: "
    libraries = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib"))
    reached = traceback.extract_tb(error.__traceback__)
    theirs = [line for line in reached if not line.filename.startswith((*_OURS, *libraries))]
    return "".join(f"{line.filename}:{line.lineno}: " for line in (theirs or reached)[-1:])


def _refuse_arguments(name: str, maker: Callable[..., object]) -> None:
    try:
        inspect.signature(maker).bind()
    except (TypeError, ValueError) as error:
        raise AppNotFound(
            f"{name} is neither an app nor a function that makes one without arguments ({error})"
        ) from None


def name_of(app: Stepwell) -> str:
    """The `module:name` under which another process will find this app."""
    # The main program last: another process would have to import it a second time to find the app there.
    for module_name, module in sorted(sys.modules.items(), key=lambda item: item[0] in _MAIN):
        for attribute, value in list(vars(module).items()):
            if value is app:
                return f"{module_name}:{attribute}"
    raise StepwellError(
        "slots are processes of their own and import the app: keep it in a variable of a module, "
        "or use executor='thread'"
    )
