"""The keyboard alone is enough, and an address is the whole state."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewPage
from tests.browser.shop import Shop

pytestmark = pytest.mark.slow


def test_keys_lead_to_screens_rows_and_steps(page: Page, shop: Shop) -> None:
    page.goto(".")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url("**/steps")
    for _ in range(3):
        page.keyboard.press("j")
    page.keyboard.press("k")
    key = page.locator("tr.cursor").get_attribute("data-key")
    assert key == page.locator("tbody tr").nth(1).get_attribute("data-key")
    page.keyboard.press("x")
    expect(page.locator("[data-ticked]")).to_have_text("1")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/steps/{key}")


def test_search_finds_ids_uuids_objects_and_actions(page: Page, shop: Shop) -> None:
    def search(text: str) -> None:
        page.goto("./groups")
        page.keyboard.press("/")
        page.keyboard.type(text)
        page.keyboard.press("Enter")

    search(str(shop.failed))
    page.wait_for_url(f"**/steps/{shop.failed}")
    search(shop.failed_workflow[:13])
    page.wait_for_url(re.compile("/workflows/" + shop.failed_workflow[:13]))
    search("order:4005")
    expect(page.locator("tbody tr")).to_have_count(1)
    search("charge")
    expect(page.locator("tbody tr").first).to_contain_text("charge")


def test_r_retries_c_asks_before_it_cancels_and_e_explains(page: Page, shop: Shop) -> None:
    step = shop.app.enqueue("embroider", {"text": "K"}, queue="gpu")
    page.goto(f"./steps/{step.id}")
    page.keyboard.press("c")
    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 1 step?")
    page.get_by_role("button", name="Cancel 1").press("Enter")
    page.goto(f"./steps/{step.id}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Cancelled")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Pending")
    page.keyboard.press("e")
    page.wait_for_url("**/steps/*#why")


def test_a_dot_holds_the_page_and_a_question_mark_helps(page: Page, shop: Shop) -> None:
    step = shop.app.enqueue("mail", {"to": "held@example"}, delay=3_600)
    page.goto(f"./steps/{step.id}")
    page.keyboard.press(".")
    expect(page.locator("#live")).to_have_attribute("data-state", "held")
    shop.app.cancel(step, who="bob")
    page.evaluate("stepwellRefresh()")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Pending")
    page.keyboard.press(".")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Cancelled")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()


def test_reload_and_back_show_the_same_page(page: Page, shop: Shop) -> None:
    page.goto("./steps?state=Failed&action=charge")
    shown = page.locator("tbody tr").evaluate_all("all => all.map(each => each.dataset.key)")
    page.locator("tbody a").first.click()
    page.wait_for_url(re.compile(r"/steps/\d+$"))
    page.go_back()
    assert page.locator("tbody tr").evaluate_all("all => all.map(each => each.dataset.key)") == shown
    page.reload()
    assert page.locator("tbody tr").evaluate_all("all => all.map(each => each.dataset.key)") == shown
    expect(page.locator(".chip[aria-current]")).to_contain_text("Failed")


def test_the_theme_is_kept(new_page: NewPage) -> None:
    page = new_page(color_scheme="light")
    page.goto(".")
    page.locator("#theme").click()
    page.goto("./steps")
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_copy_as_cli_copies_the_command(new_page: NewPage) -> None:
    page = new_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto("./steps?state=Failed&relatable=order:40")
    page.get_by_role("button", name="Copy as CLI").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "stepwell steps --state Failed --relatable order:40"


# What takes the focus, of all that can be seen; the number of each is left on it.
NUMBER_CONTROLS = """() => {
    const all = document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]');
    const seen = [...all].filter((each) => each.checkVisibility({ visibilityProperty: true })
        && !each.disabled && each.type !== 'hidden');
    seen.forEach((each, number) => each.setAttribute('data-js-control', String(number)));
    return seen.map((each) => each.outerHTML.slice(0, 100));
}"""
# A menu that opens closes the others, a moment later: here they stay open.
OPEN_EVERYTHING = """() => {
    window.addEventListener('toggle', (event) => event.stopImmediatePropagation(), true);
    document.querySelectorAll('details').forEach((each) => { each.open = true; });
}"""
INSIDE_FIELDS = 30  # a field for a date has a stop for the year, the month, …
FOCUSED = "() => document.activeElement?.getAttribute('data-js-control') ?? null"


def test_every_control_of_every_screen_is_reached_with_the_tab_key(page: Page, screens: dict[str, str]) -> None:
    """With every menu open: so every action can be done without a mouse."""
    missed: list[str] = []
    for name, path in screens.items():
        page.goto(f".{path}")
        page.keyboard.press(".")  # updates would bring new controls
        page.evaluate(OPEN_EVERYTHING)
        controls = page.evaluate(NUMBER_CONTROLS)
        reached: set[str] = set()
        for _ in range(len(controls) + INSIDE_FIELDS):
            page.keyboard.press("Tab")
            reached |= {page.evaluate(FOCUSED)}
            if len(reached - {None}) == len(controls):
                break
        missed += [f"{name}: {text}" for number, text in enumerate(controls) if str(number) not in reached]
    assert not missed, "\n".join(missed)


def test_dispatching_is_paused_and_resumed_with_the_keyboard_alone(page: Page, shop: Shop) -> None:
    page.goto(".")
    page.get_by_role("switch").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("deploy 4.2")
    page.keyboard.press("Tab")
    page.keyboard.type("20m")
    page.keyboard.press("Enter")
    expect(page.locator(".banner")).to_contain_text("(planned 20 min)")
    assert not shop.app.breaker.state().dispatching
    page.get_by_role("button", name="Resume", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator(".banner")).to_have_count(0)
    assert shop.app.breaker.state().dispatching
