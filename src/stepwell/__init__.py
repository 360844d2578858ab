"""Stepwell: a durable step dispatcher. Background work is rows in SQLite or PostgreSQL.

The public names are those of `stepwell.public`. Each is loaded when it is used, not with the package: `stepwell --help`
needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from stepwell.public import *  # noqa: F403 - it has `__all__`
else:

    def __getattr__(name: str) -> object:
        """Called for a name that the package does not have yet."""
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module 'stepwell' has no attribute {name!r}")
        from importlib import import_module

        public = import_module("stepwell.public")
        if name != "__all__" and name not in public.__all__:
            raise AttributeError(f"module 'stepwell' has no attribute {name!r}")
        found = getattr(public, name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
