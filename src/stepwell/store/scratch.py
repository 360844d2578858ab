"""Empty databases for one use, deleted afterwards: for tools that test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def scratch_database(url: str = "sqlite://") -> Iterator[str]:
    """The URL of an empty database like this one, which several processes can open.

    On SQLite it is a file, in a temporary folder beside the one that is named (or anywhere, for `sqlite://`); on
    PostgreSQL a schema of its own on the same server, first in the search path.
    """
    if not url.startswith("sqlite:"):
        from stepwell.store.postgres.scratch import scratch_schema

        with scratch_schema(url) as own:
            yield own
        return
    from stepwell.store.sqlite.path import path_of

    named = path_of(url)
    with TemporaryDirectory(prefix="stepwell-", dir=None if named is None else named.parent) as folder:
        yield f"sqlite:///{Path(folder).resolve()}/scratch.db"
