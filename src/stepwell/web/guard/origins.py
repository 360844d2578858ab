"""Whether a request that changes something was sent by a page of this site.

A browser says so in `Sec-Fetch-Site`, or, over plain HTTP on a network, in `Origin` alone. A request without either is
not from a page: programs send a token instead.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def problem_of_origin(headers: Headers) -> str | None:
    """Why the request is refused; None if it is from a page of this site."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and not _is_own(origin, headers.get("host", "")):
        return "it comes from a page of another site"
    if site is not None:
        return None if site == "same-origin" else "it comes from a page of another site"
    return None if origin is not None else "it does not say which site it comes from"


def _is_own(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()
