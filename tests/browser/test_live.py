"""Live updates: what is shown follows the database, and what the reader does stays as it is."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from stepwell.web.screens import pages
from tests.browser.conftest import NewPage, Watched
from tests.browser.serving import Server
from tests.browser.shop import Shop

pytestmark = pytest.mark.slow

REFRESH = "stepwellRefresh()"


def refresh(page: Page) -> None:
    page.wait_for_function("window.stepwellRefresh !== undefined")
    page.evaluate(REFRESH)


def test_a_change_is_on_the_screen_within_three_seconds(page: Page, shop: Shop) -> None:
    step = shop.app.enqueue("mail", {"to": "x@example"}, delay=3_600)
    page.goto(f"./steps/{step.id}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Pending")
    shop.app.cancel(step, who="ann")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Cancelled", timeout=5_000)
    expect(page).to_have_title(f"⊘ mail {step.id} · Stepwell")


@pytest.fixture
def unshared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request is rendered anew, so that each refresh brings what has changed."""
    monkeypatch.setattr(pages, "SHARED_SECONDS", 0.0)


def change_and_refresh(page: Page, shop: Shop) -> None:
    for number in range(10):
        shop.app.enqueue("mail", {"to": f"{number}@example"}, delay=3_600)
        refresh(page)


@pytest.mark.usefixtures("unshared")
def test_focus_ticks_scroll_and_typed_text_survive_ten_refreshes(page: Page, shop: Shop) -> None:
    page.set_viewport_size({"width": 1200, "height": 500})
    page.goto("./steps")
    count = page.get_by_role("heading", level=1).inner_text()
    page.get_by_label("queue").fill("half typ")
    page.locator("tbody input[type=checkbox]").nth(2).check()
    page.locator("tbody tr a").nth(6).focus()
    page.evaluate("scrollTo(0, 300)")
    page.evaluate("window.focused = document.activeElement")
    place = "window.focused.getBoundingClientRect().top"
    before = page.evaluate(place)
    change_and_refresh(page, shop)
    assert page.get_by_role("heading", level=1).inner_text() != count
    assert page.evaluate("window.focused === document.activeElement && window.focused !== document.body")
    assert page.get_by_label("queue").input_value() == "half typ"
    assert page.locator("tbody input[type=checkbox]").nth(2).is_checked()
    assert page.locator("[data-ticked]").inner_text() == "1"
    assert page.evaluate(place) == before  # what the reader looks at has not moved


@pytest.mark.usefixtures("unshared")
def test_selected_text_survives_ten_refreshes(page: Page, shop: Shop) -> None:
    page.goto(".")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('main h2'))")
    selected = page.evaluate("getSelection().toString()")
    change_and_refresh(page, shop)
    assert selected
    assert page.evaluate("getSelection().toString()") == selected


@pytest.mark.usefixtures("unshared")
def test_opened_details_stay_open_and_typed_reasons_stay_typed(page: Page, shop: Shop) -> None:
    page.goto(".")
    page.locator("details.host").first.locator("summary").click()
    page.get_by_role("switch").click()
    page.get_by_label("why").fill("deploy 4.2")
    change_and_refresh(page, shop)
    assert page.locator("details.host").first.evaluate("each => each.open")
    assert page.get_by_label("why").input_value() == "deploy 4.2"
    assert page.evaluate("document.activeElement.name") == "why"


def test_new_rows_wait_behind_a_button(page: Page, shop: Shop) -> None:
    page.goto("./steps?action=mail")
    before = page.locator("tbody tr").first.get_attribute("data-key")
    made = shop.app.enqueue("mail", {"to": "new@example"}, delay=3_600)
    button = page.locator("[data-new]")
    expect(button).to_have_text("1 new", timeout=6_000)
    assert page.locator("tbody tr").first.get_attribute("data-key") == before
    button.click()
    expect(page.locator("tbody tr").first).to_have_attribute("data-key", str(made.id))
    expect(button).to_be_hidden()


def test_an_unchanged_page_is_not_sent_again(page: Page) -> None:
    page.goto("./schedules/3")
    answers: list[int] = []
    page.on("response", lambda answer: answers.append(answer.status))
    for _ in range(3):
        refresh(page)
    assert answers[0] == 200
    assert 304 in answers


def test_a_hidden_tab_asks_nothing_and_catches_up_at_once(page: Page) -> None:
    page.goto("./groups")
    page.evaluate("""() => {
        Object.defineProperty(document, 'hidden', { value: true, configurable: true });
    }""")
    asked: list[str] = []
    # Not the icon, which the browser may fetch after everything else.
    page.on("request", lambda request: None if "/static/" in request.url else asked.append(request.url))
    page.wait_for_timeout(2_500)
    assert asked == []
    page.evaluate("""() => {
        Object.defineProperty(document, 'hidden', { value: false, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
    }""")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.wait_for_function("() => true")
    assert len(asked) >= 1


def test_a_form_is_not_live_and_never_stale(page: Page) -> None:
    page.clock.install()
    page.goto("./schedules/new")
    page.clock.run_for(20_000)
    expect(page.locator("#live")).to_have_attribute("data-state", "frozen")
    expect(page.locator("#live .text")).to_have_text("not live")
    expect(page.locator("body")).not_to_have_class("stale")


def test_an_idle_tab_is_live_between_its_rare_polls_and_asks_at_once_when_its_reader_returns(page: Page) -> None:
    page.clock.install()
    page.goto("./groups")
    page.clock.fast_forward(3_700_000)
    with page.expect_response("**/groups"):
        page.clock.run_for(31_000)
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    for _ in range(25):
        page.clock.run_for(1_000)
        assert page.locator("#live").get_attribute("data-state") == "live"
    with page.expect_response("**/groups"):
        page.keyboard.press("j")


def test_eight_tabs_are_all_live(new_page: NewPage, shop: Shop) -> None:
    first = new_page()
    tabs = [first, *(new_page(first.context) for _ in range(7))]
    step = shop.app.enqueue("mail", {"to": "eight@example"}, delay=3_600)
    for tab in tabs:
        tab.goto(f"./steps/{step.id}")
    shop.app.cancel(step, who="ann")
    for tab in tabs:
        expect(tab.get_by_role("heading", level=1)).to_contain_text("Cancelled", timeout=6_000)


def test_a_server_that_is_gone_leaves_the_page_and_one_that_returns_makes_it_live(
    page: Page, served: Server, watched: Watched
) -> None:
    watched.allowed += ["ERR_CONNECTION_REFUSED", "Failed to load resource", "ERR_CONNECTION_RESET", "ERR_EMPTY"]
    page.goto("./workers")
    served.stop()
    try:
        expect(page.locator("#live")).to_have_attribute("data-state", "stale", timeout=12_000)
        expect(page.locator("#live .text")).to_have_text(re.compile(r"as of \d\d:\d\d:\d\d, \d+ s ago; retrying"))
        expect(page.get_by_role("heading", name="Workers")).to_be_visible()
    finally:
        served.start()
    expect(page.locator("#live")).to_have_attribute("data-state", "live", timeout=8_000)


def test_ages_use_the_clock_of_the_server(new_page: NewPage, shop: Shop) -> None:
    """A browser whose clock is an hour ahead shows the same ages."""
    page = new_page()
    page.clock.install()
    page.clock.fast_forward(3_600_000)
    page.goto("./workers")
    text = page.locator("tbody tr time[data-kind=age]").first.inner_text()
    assert "60 min" not in text
    assert "1 h" not in text


def test_times_follow_the_zone_that_is_asked_for(new_page: NewPage, shop: Shop) -> None:
    page = new_page(timezone_id="Asia/Tokyo")
    page.goto("./schedules/1")
    slot = page.locator("section:has(h2:text-is('Next')) time[data-kind=full]").first
    utc = slot.get_attribute("datetime") or ""
    local = slot.inner_text()
    assert local[11:16] != utc[11:16]
    expect(page.locator("#zone")).to_have_text("UTC+9")
    page.locator("#zone").click()
    expect(page.locator("#zone")).to_have_text("UTC")
    assert slot.inner_text()[11:16] == utc[11:16]
    page.goto("./schedules/1?tz=Europe/Berlin")
    expect(page.locator("#zone")).to_have_attribute("title", re.compile("Europe/Berlin"))
