"""Finding the app that a command or a slot is to work for: `module:name`, as people know it from web servers."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from stepwell.model.errors import AppNotFound, StepwellError
from stepwell.store.migrate import taking_the_schema_for_granted

if TYPE_CHECKING:
    from stepwell.app import Stepwell

_MAIN: Final = ("__main__", "__mp_main__")  # the second is what another process calls the first


def load_app(name: str, *, in_slot: bool = False) -> Stepwell:
    """Import the app. The name comes from the person who starts the program, never from data."""
    from stepwell.app import Stepwell

    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise AppNotFound(f"{name!r} does not name an app: say module:variable, for example shop.jobs:app")
    with taking_the_schema_for_granted(in_slot):
        if module_name in _MAIN:
            module = sys.modules.get("__mp_main__", sys.modules["__main__"])
        else:
            try:
                module = importlib.import_module(module_name)
            except ModuleNotFoundError as error:
                if error.name is None or not module_name.startswith(error.name):
                    raise
                raise AppNotFound(f"there is no module {module_name!r} to import here") from error
        app = module
        for part in attribute.split("."):
            app = getattr(app, part, None)  # type: ignore[assignment]
        if callable(app) and not isinstance(app, Stepwell):
            _refuse_arguments(name, app)
            app = app()
    if not isinstance(app, Stepwell):
        raise AppNotFound(
            f"{name} is of type {type(app).__name__}: an app is a Stepwell, or a function that returns one"
        )
    return app


def _refuse_arguments(name: str, maker: Callable[..., object]) -> None:
    try:
        inspect.signature(maker).bind()
    except (TypeError, ValueError) as error:
        raise AppNotFound(
            f"{name} is neither an app nor a function that makes one without arguments ({error})"
        ) from error


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
