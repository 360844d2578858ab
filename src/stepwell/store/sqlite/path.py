"""The file behind a URL, without the driver."""

from __future__ import annotations

from pathlib import Path


def path_of(url: str) -> Path | None:
    """The file of `sqlite:///relative.db` or `sqlite:////absolute.db`; None for `sqlite://` (in memory)."""
    rest = url.removeprefix("sqlite:").removeprefix("//")
    if rest in ("", "/", ":memory:", "/:memory:"):
        return None
    return Path(rest.removeprefix("/")) if url.startswith("sqlite:///") else Path(rest)
