"""A browser signs in by the one-time link or with a token, and out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from stepwell.web import Application, Role, Token, application
from tests.browser.conftest import Watched
from tests.browser.serving import Server
from tests.browser.shop import Shop

pytestmark = pytest.mark.slow

TOKEN = Token("a-token-that-only-this-test-knows", "bob", Role.READ)


@pytest.fixture
def site(shop: Shop) -> Application:
    return application(shop.app, tokens=[TOKEN])


@pytest.fixture
def guarded(site: Application) -> Iterator[Server]:
    server = Server(site)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def stranger(browser: Browser, guarded: Server, watched: Watched) -> Iterator[Page]:
    """A page of a browser that has not signed in."""
    watched.allowed.append("status of 401")
    context = browser.new_context()
    page = context.new_page()
    watched.watch(page, f"localhost:{guarded.port}")
    yield page
    context.close()


def test_the_link_signs_in_once_and_leaves_no_code_in_the_address(
    stranger: Page, site: Application, guarded: Server
) -> None:
    link = f"http://localhost:{guarded.port}{site.sign_in_path('ann')}"
    stranger.goto(link)
    expect(stranger).to_have_title("Overview · Stepwell")
    assert "code" not in stranger.url
    stranger.get_by_role("button", name="Sign out").click()
    expect(stranger).to_have_title("Sign in · Stepwell")
    stranger.goto(link)
    expect(stranger.locator("#message")).to_contain_text("was used before, or has expired")
    stranger.goto(guarded.base)
    expect(stranger).to_have_title("Sign in · Stepwell")


def test_a_colleague_who_follows_a_link_signs_in_and_sees_what_it_shows(
    stranger: Page, guarded: Server, shop: Shop
) -> None:
    stranger.goto(f"{guarded.base}/steps?state=Failed&action=charge")
    stranger.get_by_label("Token").fill(TOKEN.secret)
    stranger.get_by_role("button", name="Sign in").click()
    expect(stranger.locator(".chip[aria-current]")).to_contain_text("Failed")
    expect(stranger.get_by_text("read only")).to_be_visible()
    expect(stranger.get_by_role("button", name="Retry all…")).to_have_count(0)
    stranger.goto(f"{guarded.base}/steps/{shop.failed}")
    expect(stranger.locator("main form")).to_have_count(0)
    stranger.set_viewport_size({"width": 390, "height": 844})
    search = stranger.get_by_role("searchbox").bounding_box()
    assert search is not None
    assert search["width"] >= 100
    assert not stranger.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
