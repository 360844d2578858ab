"""Survival tests need to look into /proc, and every process they start is ended with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.survival.support import Well

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here starts processes, and waits for leases to end."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def well(shared_database_url: str, tmp_path: Path) -> Iterator[Well]:
    """A well on both databases; the promises are checked when the test is over."""
    well = Well(shared_database_url, tmp_path)
    try:
        yield well
        well.check()
    finally:
        well.close()
