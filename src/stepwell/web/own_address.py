"""Where a form leads back to: an address that a request names, if it is one of the dashboard."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

MOST_PARAMETERS: Final = 1_000


def own_address(text: str) -> str | None:
    """A path below the dashboard with its query, ready for a redirect; None for anything else.

    >>> own_address("/steps?relatable=order:4")
    '/steps?relatable=order%3A4'
    >>> own_address("//evil.example/"), own_address("https://evil.example/"), own_address("/a/../../b")
    (None, None, None)
    """
    path, _, query = text.partition("?")
    if not path.startswith("/") or "//" in path or set("\\:") & set(path) or ".." in path.split("/"):
        return None
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        return None
    return f"{quote(path)}{'?' if pairs else ''}{urlencode(pairs)}"
