"""Attributes that are made on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - used like `property`
    """`functools.cached_property`, but called once, whichever threads ask at the same time, on all versions of Python.

    What was made is an attribute of the object itself, so that `vars` tells whether anything has asked for it.

    >>> class Shop:
    ...     @once
    ...     def prices(self) -> dict[str, int]:
    ...         print("made")
    ...         return {}
    >>> shop = Shop()
    >>> "prices" in vars(shop), shop.prices, shop.prices, "prices" in vars(shop)
    made
    (False, {}, {}, True)
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__
        self._lock = threading.RLock()
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, of: None, owner: type) -> Self: ...
    @overload
    def __get__(self, of: object, owner: type) -> T: ...
    def __get__(self, of: object | None, owner: type) -> Self | T:
        """Called while the object has no such attribute of its own."""
        if of is None:
            return self
        with self._lock:
            if self._name not in vars(of):
                vars(of)[self._name] = self._make(of)
        made: T = vars(of)[self._name]
        return made
