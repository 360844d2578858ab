"""Jobs are typed like their code: mypy checks this file, and an ignore that is not needed is an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import assert_type

import pytest

from stepwell import Handle, InvalidStep, Job, NewStep, Stepwell


@pytest.fixture
def app() -> Iterator[Stepwell]:
    with Stepwell("sqlite://") as app:
        yield app


def test_a_function_is_enqueued_as_it_is_called(app: Stepwell) -> None:
    @app.job(retries=5, timeout=30)
    def fetch(symbol: str, limit: int = 10) -> list[str]:
        return [symbol] * limit

    handle = fetch.enqueue("BTC", limit=2)
    assert_type(handle, Handle[list[str]])
    assert_type(fetch.draft("BTC"), NewStep)
    assert_type(fetch.options(queue="candles").enqueue("BTC"), Handle[list[str]])
    assert_type(fetch("BTC", 1), list[str])
    app.run_until_idle()
    assert_type(handle.result(timeout=0), list[str])
    assert handle.result(timeout=0) == ["BTC", "BTC"]
    with pytest.raises(InvalidStep):
        fetch.enqueue(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidStep):
        fetch.enqueue()  # type: ignore[call-arg]
    with pytest.raises(InvalidStep):
        fetch.enqueue("BTC", limits=1)  # type: ignore[call-arg]
    with pytest.raises(InvalidStep):
        fetch.options(priority="high").draft("BTC", limit="many")  # type: ignore[arg-type]


def test_without_settings_the_decorator_needs_no_parentheses(app: Stepwell) -> None:
    @app.job
    def fetch(symbol: str) -> list[str]:
        return [symbol]

    @app.job
    async def later(symbol: str) -> bytes:
        return symbol.encode()

    class Sync(Job):
        def compute(self) -> int:
            return 1

    handle = fetch.enqueue("BTC")
    assert_type(handle, Handle[list[str]])
    assert_type(later.enqueue("BTC"), Handle[bytes])
    assert_type(app.job(Sync).enqueue(), Handle[int])
    assert app.run_until_idle() == 3
    assert handle.result(timeout=0) == ["BTC"]
    with pytest.raises(InvalidStep):
        fetch.enqueue(7)  # type: ignore[arg-type]


def test_a_coroutine_function_gives_what_it_returns_when_awaited(app: Stepwell) -> None:
    @app.job()
    async def fetch(symbol: str) -> datetime:
        return datetime.fromisoformat(symbol)

    handle = fetch.enqueue("2026-01-01T00:00:00+00:00")
    assert_type(handle, Handle[datetime])
    app.run_until_idle()
    assert handle.result(timeout=0).year == 2026

    async def wait() -> None:
        assert_type(await handle, datetime)
        assert_type(await fetch.aenqueue("2026"), Handle[datetime])


def test_a_class_is_enqueued_as_it_is_constructed(app: Stepwell) -> None:
    @dataclass
    class SyncAccount(Job):
        account: int

        def compute(self) -> dict[str, int]:
            return {"account": self.account}

    class Later(Job):
        async def compute(self) -> int:
            return 1

    sync = app.job(name="sync")(SyncAccount)
    handle = sync.enqueue(7)
    assert_type(handle, Handle[dict[str, int]])
    assert_type(app.job()(Later).enqueue(), Handle[int])
    app.run_until_idle()
    assert handle.result(timeout=0) == {"account": 7}
    with pytest.raises(InvalidStep):
        sync.enqueue("seven")  # type: ignore[arg-type]
