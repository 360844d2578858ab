"""A password never appears: not in errors with all their causes, not in any log, not in what commands print."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator

import pytest

from stepwell import Stepwell
from stepwell.model.errors import StepwellError
from tests.unit.cli.support import run

CANARY = "cAnArY"
# Nothing listens on port 1.
URLS = [
    f"postgresql://ann:{CANARY}@127.0.0.1:1/jobs",
    f"postgresql://ann:{CANARY}%@127.0.0.1:1/jobs",
    f"postgresql://ann:100%{CANARY}@127.0.0.1:1/jobs",
    f"postgresql://ann:p@{CANARY}@127.0.0.1:1/jobs",
    f"postgresql://ann:p/{CANARY}@127.0.0.1:1/jobs",
    f"postgresql://ann:{CANARY}",
    f"postgresql:ann:{CANARY}@127.0.0.1:1/jobs",
    f"postgresql://127.0.0.1:1/jobs?user=ann&password={CANARY}",
    f"postgresql://127.0.0.1:1/jobs?pasword={CANARY}",
    f"host=127.0.0.1 port=1 password={CANARY}",
    f"postgresql+psycopg://ann:{CANARY}@127.0.0.1:1/jobs",
    f"sqlite://:{CANARY}@/file.db",
    f"sqlite:///file.db?password={CANARY}",
]


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("url", URLS)
def test_no_error_and_no_log_of_the_library_shows_a_password(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(StepwellError) as caught:
        Stepwell(url).open()
    texts = [f"{error} {error!r} {error.args}" for error in chain(caught.value)]
    # Not the source lines: this test's own URLs are in them.
    texts += traceback.TracebackException.from_exception(caught.value).format_exception_only()
    assert CANARY not in "".join(texts) + caplog.text


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "arguments", [["steps", "--json"], ["doctor"], ["migrate"], ["enqueue", "fetch"], ["dispatcher"]]
)
def test_no_command_shows_a_password(url: str, arguments: list[str]) -> None:
    result = run(url, *arguments, code=1)
    assert CANARY not in result.stdout + result.stderr
    assert "--json" in arguments or len(result.stderr.splitlines()) == 1


def test_an_app_shows_its_database_without_the_password() -> None:
    app = Stepwell(f"postgresql://ann:{CANARY}@127.0.0.1:1/jobs")
    assert repr(app) == "<Stepwell postgresql://ann:…@127.0.0.1:1/jobs>"
    assert CANARY not in repr(app.job) + repr(app.database)


def test_the_log_of_a_pool_shows_no_password(postgres_url: str, caplog: pytest.LogCaptureFixture) -> None:
    import psycopg_pool

    from stepwell.store.postgres.connecting import ServerConnection

    caplog.set_level(logging.DEBUG)
    url = f"postgresql://ann:p@{CANARY}@127.0.0.1:1/jobs"
    with (
        psycopg_pool.ConnectionPool(url, connection_class=ServerConnection, min_size=0, max_size=1, open=True) as pool,
        pytest.raises(psycopg_pool.PoolTimeout),
    ):
        pool.getconn(timeout=0.5)
    assert "error connecting" in caplog.text
    assert CANARY not in caplog.text
