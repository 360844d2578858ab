"""How long a client that does not respond can keep others waiting.

A client can be suspended (SIGSTOP, a paused virtual machine) or lose its network inside a transaction, with locks that
every other worker needs. The server ends such a transaction. The bounds are set in the statement that begins it, which
costs no round trip, and apply only to that transaction: a pooler may give the session to another client next.

Only reads with a time limit (`Database.bounded`) have a `statement_timeout`: a long cascade is not a fault, and a
statement that waits is bounded by `lock_timeout`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from psycopg.conninfo import conninfo_to_dict

from stepwell.store.macros import KEEP_TO_INDEXES

# A third of a lease, like the time between two heartbeats: others get the locks before the lease of the client expires.
SHARE_OF_LEASE: Final = 3
# Below this, a busy machine (or a garbage collection) would look like a suspended client.
SHORTEST_SECONDS: Final = 1.0
# A transaction that waits for a suspended client outlasts it, and is repeated only if another writer is in the way.
LOCK_WAITS: Final = 1.5
KEEPALIVES: Final = 3


def idle_seconds(lease_seconds: float) -> float:
    """How long a transaction may be idle."""
    return max(SHORTEST_SECONDS, lease_seconds / SHARE_OF_LEASE)


@cache
def begin(idle: float) -> bytes:
    """The statement that begins a transaction with these bounds.

    The session ends if the client sends nothing for `idle` seconds, or (over TCP) does not read what it is sent.
    """
    idle_ms, lock_ms = int(1000 * idle), int(1000 * idle * LOCK_WAITS)
    return (
        f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = {idle_ms}; SET LOCAL lock_timeout = {lock_ms}; "
        f"SET LOCAL tcp_user_timeout = {idle_ms}"
    ).encode()


@cache
def of_migration(idle: float) -> bytes:
    """The bounds of a transaction that has begun and changes the schema: it may wait for another one's locks."""
    idle_ms = int(1000 * idle)
    return (
        f"SET LOCAL idle_in_transaction_session_timeout = {idle_ms}; SET LOCAL tcp_user_timeout = {idle_ms}"
    ).encode()


@cache
def begin_writing(idle: float) -> bytes:
    """The same for a transaction that writes: its statements look up rows by index."""
    return begin(idle) + "".join(f"; SET LOCAL {name} = {to}" for name, to in KEEP_TO_INDEXES.items()).encode()


def begin_reading(idle: float, seconds: float) -> bytes:
    """The same for a transaction that only reads, each of whose statements has a time limit."""
    return begin(idle) + f"; SET LOCAL statement_timeout = {int(1000 * seconds)}; SET TRANSACTION READ ONLY".encode()


def socket_options(url: str, idle: float) -> dict[str, Any]:
    """The client's own options: a connection to a server that is gone fails, instead of waiting for hours.

    An option that the URL has is left as it is.
    """
    pause = max(1, int(idle / (KEEPALIVES + 1)))
    wanted = {
        "keepalives_idle": pause,
        "keepalives_interval": pause,
        "keepalives_count": KEEPALIVES,
        "tcp_user_timeout": int(1000 * idle),
    }
    given = conninfo_to_dict(url)
    return {name: value for name, value in wanted.items() if name not in given}
