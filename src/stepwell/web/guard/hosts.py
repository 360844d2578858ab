"""Which host names a request may be addressed to.

A page of another site can make a browser send requests to this machine under a name of its own (DNS rebinding). Such a
name is refused before anything else is looked at.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection
from typing import Final

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?", re.IGNORECASE)


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach a server that listens on this address."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


class Hosts:
    """An allow-list of host names, compared exactly; `*` allows every name."""

    def __init__(self, names: Collection[str] = (), *, any_address: bool = False) -> None:
        """`any_address`: a server on all addresses can be called by each of them; a number cannot be rebound."""
        self._names = {name.lower().strip("[]") for name in (*LOOPBACK, *names)}
        self._any_address = any_address

    @classmethod
    def of_server(cls, address: str, names: Collection[str] = ()) -> Hosts:
        """For a server that listens on this address."""
        if is_loopback(address):
            return cls(names)
        return cls([address, socket.gethostname(), *names], any_address=address in ("0.0.0.0", "::", ""))

    def allow(self, header: str | None) -> bool:
        """Whether the value of a `Host` header is one of these names, with any port."""
        if "*" in self._names:
            return True
        found = None if header is None else _HOST.fullmatch(header)
        if found is None:
            return False
        name = found["name"].lower().strip("[]")
        return name in self._names or (self._any_address and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
