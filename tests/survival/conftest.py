"""Survival tests read /proc, and every process they start is killed with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.survival.support import Cluster

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here starts processes and waits for leases to expire."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def cluster(shared_database_url: str, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster on each database; the invariants are checked at the end of the test."""
    cluster = Cluster(shared_database_url, tmp_path)
    try:
        yield cluster
        cluster.check()
    finally:
        cluster.close()
