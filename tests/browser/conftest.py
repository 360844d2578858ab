"""A browser, a shop with history that is served, and pages that fail a test for what a reader would not see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request, sync_playwright

from stepwell.web import Role, Visitor, application
from tests.browser.chromium import NoChromium, launch
from tests.browser.screens import screens_of
from tests.browser.serving import Server
from tests.browser.shop import Shop, open_shop


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A Chromium; when there is none, every test that asks for it fails with what was tried."""
    with sync_playwright() as playwright:
        reason = None
        try:
            found = launch(playwright.chromium)
        except NoChromium as error:
            reason = str(error)
        if reason:
            pytest.fail(reason, pytrace=False)
        yield found
        found.close()


@pytest.fixture(scope="package")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Two hours of history, a live worker, and three steps that run until the end."""
    made = open_shop(f"sqlite:///{tmp_path_factory.mktemp('shop')}/shop.db")
    for minutes in range(3):
        made.app.enqueue("hold", {"minutes": minutes})
    with made.app.running(slots=4):
        yield made
        made.release.set()
    made.app.close()


@pytest.fixture(scope="package")
def served(shop: Shop) -> Iterator[Server]:
    server = Server(application(shop.app, recognise=lambda scope: Visitor("ann", Role.ADMIN)))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="package")
def screens(shop: Shop) -> dict[str, str]:
    return screens_of(shop)


@dataclass
class Watched:
    """What went wrong on a page that no reader would see."""

    problems: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)  # texts of errors that a test causes

    def watch(self, page: Page, host: str) -> None:
        def on_console(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                self._add(f"console: {message.text}")

        def on_request(request: Request) -> None:
            address = urlsplit(request.url)
            if address.scheme != "data" and address.netloc != host:
                self._add(f"request to another host: {request.url}")

        def on_dialog(dialog: Dialog) -> None:
            self._add(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("console", on_console)
        page.on("pageerror", lambda error: self._add(f"script: {error}"))
        page.on("request", on_request)
        page.on("dialog", on_dialog)

    def _add(self, problem: str) -> None:
        if not any(text in problem for text in self.allowed):
            self.problems.append(problem)


@pytest.fixture
def watched() -> Iterator[Watched]:
    found = Watched()
    yield found
    assert found.problems == []


NewPage = Callable[..., Page]


@pytest.fixture
def new_page(browser: Browser, served: Server, watched: Watched) -> Iterator[NewPage]:
    """Pages of one browser window with its own cookies; the keywords are those of `new_context`."""
    contexts: list[BrowserContext] = []

    def make(context: BrowserContext | None = None, **options: Any) -> Page:
        if context is None:
            context = browser.new_context(
                base_url=f"{served.base}/", **{"viewport": {"width": 1440, "height": 900}, **options}
            )
            context.set_default_timeout(10_000)
            contexts.append(context)
        page = context.new_page()
        watched.watch(page, f"localhost:{served.port}")
        return page

    yield make
    for context in contexts:
        context.close()


@pytest.fixture
def page(new_page: NewPage) -> Page:
    return new_page()
