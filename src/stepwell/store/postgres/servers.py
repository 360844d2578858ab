"""Servers that speak the protocol of PostgreSQL but lack something that Stepwell relies on."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

# By the text of `version()`.
_REFUSED: Final = {
    r"^CockroachDB\b": (
        "CockroachDB", "it has no LISTEN/NOTIFY, no statement triggers with transition tables and no advisory locks"
    ),
    r"^PostgreSQL \S+-YB-": (
        "YugabyteDB", "it has no LISTEN/NOTIFY, and its advisory locks and FOR UPDATE SKIP LOCKED differ by version"
    ),
}  # fmt: skip


def reason_to_refuse(version: str, extensions: Collection[str]) -> str | None:
    """Why Stepwell does not run on this server, or None; the arguments are its `version()` and its extensions.

    >>> reason_to_refuse("PostgreSQL 16.4 on x86_64-pc-linux-gnu, compiled by gcc", ["plpgsql"])
    >>> reason_to_refuse("PostgreSQL 16.4 on x86_64-pc-linux-gnu, compiled by gcc", ["citus"]).split(":")[0]
    'this database is distributed by Citus'
    """
    for pattern, (server, lacks) in _REFUSED.items():
        if re.search(pattern, version):
            return f"this server is {server}: {lacks}"
    if "citus" in extensions:
        return (
            "this database is distributed by Citus: triggers and foreign keys across its shards do not do what "
            "Stepwell relies on"
        )
    return None
