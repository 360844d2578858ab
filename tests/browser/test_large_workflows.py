"""A large workflow in a browser: stacks are opened with the keyboard, live updates keep them open."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from stepwell import NewStep
from stepwell.web.screens import pages, workflow_outline
from tests.browser.shop import Shop
from tests.browser.test_live import refresh
from tests.browser.test_screens import serious_violations

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_outline, "LARGE", 5)
    monkeypatch.setattr(pages, "SHARED_SECONDS", 0.0)


@pytest.fixture
def workflow(shop: Shop) -> str:
    root = NewStep(action="embroider", queue="gpu")
    handles = shop.app.enqueue_many(
        [root, *(NewStep(action="mail", parent=root, arguments={"to": f"{place}@example"}) for place in range(12))]
    )
    return shop.app.step(handles[0]).uuid


def test_a_stack_is_opened_with_the_keyboard_and_stays_open(page: Page, shop: Shop, workflow: str) -> None:
    page.goto(f"./workflows/{workflow}")
    toggle = page.get_by_role("link", name="mail ×12")
    expect(toggle).to_have_attribute("aria-expanded", "false")
    toggle.focus()
    page.keyboard.press("Enter")
    expect(toggle).to_have_attribute("aria-expanded", "true")
    members = page.locator("li[data-key^='o-s'] li[data-key^='o-s']")
    expect(members).to_have_count(12)
    toggle.focus()
    shop.app.cancel(shop.app.lists.steps(workflow=workflow, action="mail", limit=1).rows[0].id, who="ann")
    refresh(page)
    refresh(page)
    expect(page.locator("main")).to_contain_text("1 Cancelled")
    expect(members).to_have_count(12)
    expect(toggle).to_be_focused()
    page.go_back()
    expect(toggle).to_have_attribute("aria-expanded", "false")


@pytest.mark.parametrize("view", ["tree", "graph", "timeline"])
def test_axe_finds_nothing_serious_on_a_large_workflow(page: Page, shop: Shop, view: str) -> None:
    page.goto(f"./workflows/{shop.failed_workflow}?view={view}")
    assert serious_violations(page) == []
    shop.app.breaker.pause("ann", "deploy", planned=1e-6)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"./workflows/{shop.failed_workflow}?view={view}&late")
    expect(page.locator(".banner.late")).to_be_visible()
    assert not page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    found = serious_violations(page)
    shop.app.breaker.resume("ann")
    assert found == []


def test_a_box_of_the_graph_leads_to_its_stack(page: Page, workflow: str) -> None:
    page.goto(f"./workflows/{workflow}?view=graph")
    page.locator("a[data-key^='a-g']").click()
    expect(page.get_by_role("link", name="mail ×12")).to_have_attribute("aria-expanded", "true")


def test_an_attempt_is_chosen_from_a_menu(page: Page, shop: Shop) -> None:
    page.goto(f"./workflows/{shop.failed_workflow}?view=timeline")
    page.locator("summary", has_text="attempt: all").click()
    page.get_by_role("group", name="Attempt").get_by_role("link", name="1", exact=True).click()
    expect(page.locator("summary", has_text="attempt: 1")).to_be_visible()
    assert "attempt=1" in page.url
