"""Who sends a request, and what they may do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Literal, TypeAlias

Via: TypeAlias = Literal["token", "cookie", "host"]


class Role(IntEnum):
    """What a visitor may do; each role may do what those before it may."""

    READ = 1
    OPERATE = 2  # enqueue, retry, cancel, pause, run a schedule now, …
    ADMIN = 3  # define and delete schedules

    @classmethod
    def of(cls, name: str) -> Role:
        try:
            return cls[name.upper()]
        except KeyError:
            raise ValueError(f"unknown role {name!r}; roles: read, operate, admin") from None

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Visitor:
    """`csrf` is the token that forms and scripts of a browser send along with every change.

    `via` is how they were recognised: by the token of a program, by the cookie of a browser, or by the program that
    Stepwell is mounted in. `session` is what signing out ends: it has a value with a cookie.
    """

    name: str
    role: Role
    via: Via = "host"
    csrf: str = ""
    session: str = ""

    def may(self, role: Role) -> bool:
        return self.role >= role

    def limited_to(self, role: Role) -> Visitor:
        return replace(self, role=min(self.role, role))


# Recognises a visitor for a program that has its own sign-in: called with the ASGI scope; None refuses the request.
Recognise: TypeAlias = Callable[[Mapping[str, Any]], Visitor | None]
