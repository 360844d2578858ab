"""Servers that speak the protocol of PostgreSQL without being it."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

# By the text of `version()`. What each of them lacks differs by its version, so the reason is what Stepwell needs.
_REFUSED: Final = {"CockroachDB": r"^CockroachDB\b", "YugabyteDB": r"^PostgreSQL \S+-YB-"}
_NEEDS: Final = (
    "Stepwell relies on statement triggers with transition tables, advisory locks, FOR UPDATE SKIP LOCKED and "
    "LISTEN/NOTIFY exactly as PostgreSQL has them, and is not tested on it"
)


def reason_to_refuse(version: str, extensions: Collection[str]) -> str | None:
    """Why Stepwell does not run on this server, or None; the arguments are its `version()` and its extensions.

    >>> reason_to_refuse("PostgreSQL 16.4 on x86_64-pc-linux-gnu, compiled by gcc", ["plpgsql"])
    >>> reason_to_refuse("PostgreSQL 16.4 on x86_64-pc-linux-gnu, compiled by gcc", ["citus"]).split(":")[0]
    'this database is distributed by Citus'
    """
    for server, pattern in _REFUSED.items():
        if re.search(pattern, version):
            return f"this server is {server}: {_NEEDS}"
    return f"this database is distributed by Citus: {_NEEDS}" if "citus" in extensions else None
