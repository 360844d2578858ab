"""The file behind a URL, without the driver."""

from __future__ import annotations

from pathlib import Path

from stepwell.model.errors import StepwellError
from stepwell.model.redaction import has_password_for_sqlite


def path_of(url: str) -> Path | None:
    """The file of `sqlite:///relative.db` or `sqlite:////absolute.db`; None for `sqlite://` (in memory)."""
    if has_password_for_sqlite(url):
        raise StepwellError("SQLite takes no user, password or key: use sqlite:///file.db; nothing was opened")
    rest = url.removeprefix("sqlite:").removeprefix("//")
    if rest in ("", "/", ":memory:", "/:memory:"):
        return None
    return Path(rest.removeprefix("/")) if url.startswith("sqlite:///") else Path(rest)
