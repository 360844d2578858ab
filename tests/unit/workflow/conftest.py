from collections.abc import Iterator

import pytest

from stepwell import Stepwell


@pytest.fixture
def app() -> Iterator[Stepwell]:
    with Stepwell("sqlite://") as app:
        yield app
