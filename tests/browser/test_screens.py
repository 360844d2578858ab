"""Every screen, wide and narrow, light and dark: it fits, nothing hostile runs, and axe finds nothing serious."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from stepwell.cli import main
from tests.browser.conftest import NewPage
from tests.browser.shop import HOSTILE, HOSTILE_TOO, Shop

pytestmark = pytest.mark.slow

LOOKS = [(1440, "dark"), (390, "light"), (1440, "light"), (390, "dark")]
SERIOUS = ("serious", "critical")


def serious_violations(page: Page) -> list[str]:
    """What axe finds serious on a page, with the first elements."""
    violations = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{each['id']} {[node['target'] for node in each['nodes']][:3]}"
        for each in violations
        if each["impact"] in SERIOUS
    ]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_screen_fits_is_accessible_and_shows_its_command(
    new_page: NewPage, screens: dict[str, str], width: int, scheme: Any
) -> None:
    """axe, which takes most of a second, checks every screen in one of the looks: each look has a quarter of them."""
    page = new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    commands, found = set(main.list_commands(None)), list[str]()  # type: ignore[arg-type]
    for place, (name, path) in enumerate(screens.items()):
        answer = page.goto(f".{path}")
        assert answer is not None
        if answer.status != 200:
            found.append(f"{name}: status {answer.status}")
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            found.append(f"{name}: wider than the window")
        words = page.get_by_label("Command").last.inner_text().split()
        if words[0] != "stepwell" or words[1] not in commands:
            found.append(f"{name}: no command {words}")
        if (width, scheme) == LOOKS[place % len(LOOKS)]:
            found += [f"{name}: {violation}" for violation in serious_violations(page)]
    assert not found, "\n".join(found)


def test_hostile_names_arguments_and_errors_stay_text(new_page: NewPage, shop: Shop) -> None:
    """A dialog, a console error or a request to another host fails the test by itself."""
    page = new_page()
    page.goto(f"./steps/{shop.hostile}")
    expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE)
    expect(page.get_by_label("Error message")).to_contain_text(HOSTILE_TOO)
    page.goto("./failures")
    expect(page.locator("main")).to_contain_text(HOSTILE_TOO)
    page.goto(f"./workflows/{shop.failed_workflow}?view=graph")
    expect(page.locator("main")).to_contain_text(HOSTILE)
    assert page.locator("main img, main script").count() == 0


def test_a_page_is_readable_without_script(new_page: NewPage, shop: Shop, screens: dict[str, str]) -> None:
    page = new_page(java_script_enabled=False)
    page.goto(f"./steps/{shop.failed}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("charge")
    expect(page.locator("time").first).to_contain_text("UTC")
    page.goto("./steps?state=Failed")
    page.get_by_role("link", name="Completed").click()
    assert "state=Completed" in page.url
    page.goto(".")
    page.get_by_role("link", name="Failed", exact=False).first.click()


def test_a_phone_folds_the_filters_and_keeps_what_acts_on_ticked_rows_in_reach(new_page: NewPage, shop: Shop) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    page.goto("./steps")
    expect(page.get_by_label("queue")).to_be_hidden()
    page.locator("summary", has_text="Filters").click()
    page.get_by_label("queue").fill("mail")
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page.get_by_label("queue")).to_be_visible()  # it says what is filtered
    page.locator("tbody input[type=checkbox]").first.check()
    bar = page.locator(".bulk").bounding_box()
    navigation = page.locator("#phone-nav").bounding_box()
    assert bar is not None
    assert navigation is not None
    assert bar["y"] + bar["height"] <= navigation["y"]
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("./steps")
    expect(page.get_by_label("queue")).to_be_visible()


def test_the_life_of_a_step_fits_a_phone_and_says_how_long_each_part_took(new_page: NewPage, shop: Shop) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    page.goto(f"./steps/{shop.hostile}")
    life = page.get_by_role("region", name="Life")
    assert life.locator(".table-scroll").evaluate("each => each.scrollWidth === each.clientWidth")
    expect(life.locator(".spans")).to_contain_text("attempt 4")
    expect(life.locator(".spans li", has_text="delayed").first).to_contain_text(" s")
