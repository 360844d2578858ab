"""PostgreSQL: the connection that was used last is used next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from stepwell import Stepwell
from stepwell.store import Transaction


@pytest.fixture
def app(postgres_url: str) -> Iterator[Stepwell]:
    with Stepwell(postgres_url) as app:
        yield app


def session(tx: Transaction) -> int:
    ((row),) = tx.fetch("SELECT pg_backend_pid() AS pid", {})
    return int(row["pid"])


@pytest.mark.postgres
def test_the_connection_that_was_used_last_is_used_next(app: Stepwell) -> None:
    """Its statements are prepared and planned: in a queue, each connection would pay for that."""
    connections = app.database.connections
    with ExitStack() as held:
        sessions = [session(held.enter_context(connections.transaction(write=False))) for _ in range(3)]
    assert len(set(sessions)) == 3  # they are released in reverse order
    assert [app.database.read(session) for _ in range(4)] == [sessions[0]] * 4
    with connections.transaction(write=False) as first, connections.transaction(write=False) as second:
        assert [session(first), session(second)] == sessions[:2]
