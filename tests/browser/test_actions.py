"""Everything that a form of the dashboard does, done with a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

import pytest
from playwright.sync_api import Page, expect

from stepwell import State, StepDidNotConclude
from stepwell.look.lists import Lists
from tests.browser.conftest import Watched
from tests.browser.shop import Shop

pytestmark = pytest.mark.slow


def test_a_retry_acts_at_once_and_can_be_undone(page: Page, shop: Shop) -> None:
    step = shop.app.enqueue("embroider", {"text": "R"}, queue="gpu")  # no worker knows this action
    shop.app.cancel(step, who="bob")
    page.goto(f"./steps/{step.id}")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Pending")
    assert shop.app.step(step).state is State.PENDING
    assert shop.app.operations.of_step(step.id)[0].actor == "operator:ann"
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Cancelled")
    assert shop.app.step(step).state is State.CANCELLED


def test_a_cancellation_shows_its_preview_first(page: Page, shop: Shop) -> None:
    step = shop.app.enqueue("mail", {"to": "soon@example"}, delay=3_600)
    page.goto(f"./steps/{step.id}")
    page.get_by_role("button", name="Cancel…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 1 step?")
    assert shop.app.step(step).state is State.PENDING
    page.get_by_label("why").fill("ordered twice")
    page.get_by_role("button", name="Cancel 1").click()
    expect(page.locator("main")).to_contain_text("ordered twice")
    assert shop.app.step(step).state is State.CANCELLED


def test_ticked_steps_are_skipped_together(page: Page, shop: Shop) -> None:
    made = [shop.app.enqueue("mail", {"to": "skip@example"}, delay=3_600, relatable=("bulk", 1)) for _ in range(3)]
    page.goto("./steps?relatable=bulk:1")
    page.get_by_label(f"Tick step {made[0].id}").check()
    page.get_by_label(f"Tick step {made[2].id}").check()
    page.get_by_role("button", name="Skip ticked…").click()
    page.get_by_role("button", name="Skip 2").click()
    expect(page.get_by_text("2 of 2")).to_be_visible()
    states = [shop.app.step(each).state for each in made]
    assert states == [State.SKIPPED, State.PENDING, State.SKIPPED]


def test_all_that_match_are_frozen_at_the_preview_and_can_be_undone(page: Page, shop: Shop) -> None:
    made = [shop.app.enqueue("embroider", {"text": "A"}, queue="gpu", relatable=("bulk", 2)) for _ in range(3)]
    page.goto("./steps?relatable=bulk:2&state=Pending")
    page.get_by_role("button", name="Cancel all…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 3 steps?")
    later = shop.app.enqueue("embroider", {"text": "A"}, queue="gpu", relatable=("bulk", 2))
    shop.app.cancel(made[0], who="bob")
    page.get_by_label("pace").select_option("10/second")
    page.get_by_role("button", name="Cancel 3").click()
    expect(page.get_by_text("3 of 3")).to_be_visible()
    expect(page.locator("[data-key=changed] .value")).to_have_text("1")
    assert shop.app.step(later).state is State.PENDING
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("undo")
    expect(page.get_by_text("2 of 2")).to_be_visible()
    assert [shop.app.step(each).state for each in made] == [State.CANCELLED, State.PENDING, State.PENDING]


def test_a_refusal_says_why_and_changes_nothing(page: Page, shop: Shop) -> None:
    step = shop.app.steps(action="mail", state="Completed", limit=1)[0]
    page.goto("./steps?action=mail&state=Completed")
    page.get_by_label(f"Tick step {step.id}").check()
    page.evaluate("""() => {
        const button = document.querySelector('[data-needs-ticked]');
        if (button) button.value = 'retry';
        else {
            const made = Object.assign(document.createElement('button'), { name: 'do', value: 'retry' });
            made.textContent = 'Retry ticked…';
            document.querySelector('tbody').closest('form').append(made);
        }
    }""")
    page.get_by_role("button", name="Retry ticked…").click()
    expect(page.locator("main")).to_contain_text("Nothing would change")
    expect(page.locator("tbody")).to_contain_text("refused")


@pytest.fixture
def dispatching(shop: Shop) -> Iterator[None]:
    """Whatever a test does to the breaker, it is on afterwards."""
    yield
    shop.app.breaker.resume("test")


@pytest.mark.usefixtures("dispatching")
def test_the_breaker_asks_for_a_reason_and_its_banner_is_on_every_screen(page: Page, shop: Shop) -> None:
    page.goto(".")
    page.get_by_role("switch").click()
    page.get_by_label("why").fill("deploy 4.2")
    page.get_by_role("button", name="Pause dispatching").click()
    expect(page.locator(".banner")).to_contain_text("DISPATCHING IS OFF")
    expect(page.locator(".banner")).to_contain_text("deploy 4.2")
    state = shop.app.breaker.state()
    assert (state.dispatching, state.changed_by, state.reason) == (False, "operator:ann", "deploy 4.2")
    page.goto("./deploy")
    expect(page).to_have_title(re.compile(r"^⏸ (Deploy|safe to restart) · Stepwell$"))
    assert (page.locator("link[rel=icon]").get_attribute("href") or "").endswith("icon-off.svg")
    page.locator(".banner").get_by_role("button", name="Resume").click()
    expect(page.locator(".banner")).to_have_count(0)
    assert shop.app.breaker.state().dispatching


def test_a_pause_turns_red_by_itself_once_its_planned_end_is_over(page: Page, shop: Shop) -> None:
    page.goto(".")
    page.get_by_role("switch").click()
    page.get_by_label("why").fill("deploy 4.2")
    page.get_by_label("planned for").fill("3s")
    page.get_by_role("button", name="Pause dispatching").click()
    banner = page.locator(".banner")
    expect(banner).to_contain_text("(planned 3 s)")
    expect(page.locator(".banner.late")).to_contain_text("past its planned end", timeout=8_000)
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(banner).to_have_count(0)
    assert shop.app.breaker.state().dispatching


def test_a_workflow_is_paused_resumed_and_cancelled(page: Page, shop: Shop) -> None:
    root = shop.app.enqueue("embroider", {"text": "W"}, queue="gpu")
    page.goto(f"./workflows/{root.uuid}")
    page.locator("summary", has_text="Pause").click()
    page.get_by_label("why").fill("wait for the thread")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("main")).to_contain_text("wait for the thread")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("summary", has_text="Pause")).to_be_visible()


def test_a_failed_workflow_is_declared_as_resolved(page: Page, shop: Shop) -> None:
    run = shop.app.workflows("shop").start("catalogue", {"region": "no"})
    run.wait(timeout=20)
    page.goto(f"./workflows/{run.id}")
    page.locator("summary", has_text="Resolve").click()
    page.get_by_label("why").fill("prices were sent by mail")
    page.get_by_role("button", name="Declare as resolved").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("resolved manually")
    assert run.state == "resolved_manually"


@pytest.mark.usefixtures("dispatching")
def test_a_workflow_is_cancelled_and_retried(page: Page, shop: Shop) -> None:
    shop.app.breaker.pause("test", "so that its steps wait")
    run = shop.app.workflows("shop").start("stocktake", {"region": "cancelled"})
    page.goto(f"./workflows/{run.id}")
    page.locator("summary", has_text="Cancel").click()
    page.get_by_role("textbox", name="why").fill("counted by hand")
    page.get_by_role("button", name="Cancel everything that has not ended").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("cancelled")
    expect(page.locator("main")).to_contain_text("counted by hand")
    assert run.state == "cancelled"
    shop.app.breaker.resume("test")
    page.goto(f"./workflows/{run.id}")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("complete", timeout=30_000)
    assert run.state == "complete"


def test_an_operation_whose_process_died_is_continued(page: Page, shop: Shop) -> None:
    step = shop.app.enqueue("embroider", {"text": "C"}, queue="gpu", relatable=("bulk", 3))
    preview = shop.app.operations.preview("cancel", relatable=("bulk", 3))
    preview.execute(who="bob", wait=False)  # and nothing runs it
    page.goto(f"./operations/{preview.id}")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("1 of 1")).to_be_visible()
    assert shop.app.step(step).state is State.CANCELLED


def test_a_search_looks_further_until_it_has_seen_everything(
    page: Page, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cast("dict[str, int]", Lists.steps.__kwdefaults__), "budget", 40)
    wanted = shop.app.steps(action="fetch", limit=500)[-1]
    page.goto(f"./steps?args.source={wanted.arguments['source']}&args.rows={wanted.arguments['rows']}&queue=default")
    page.get_by_role("link", name="Look further").click()
    expect(page.get_by_label(f"Tick step {wanted.id}", exact=True)).to_be_visible(timeout=30_000)
    expect(page.get_by_role("link", name="Look further")).to_have_count(0, timeout=30_000)
    page.evaluate("() => window.stepwellRefresh()")
    expect(page.get_by_label(f"Tick step {wanted.id}", exact=True)).to_be_visible()


def test_a_graph_is_zoomed_with_its_buttons(page: Page, shop: Shop) -> None:
    page.goto(f"./workflows/{shop.failed_workflow}?view=graph")
    drawing = page.locator("svg[data-pan]")
    widths = [drawing.evaluate("each => each.getBoundingClientRect().width")]
    for name in ("Zoom in", "Zoom in", "Zoom out"):
        page.get_by_role("button", name=name).click()
        widths.append(drawing.evaluate("each => each.getBoundingClientRect().width"))
    assert widths[0] < widths[1] < widths[2] > widths[3]
    page.get_by_role("button", name="Fit").click()
    room = page.locator(".graph-box").evaluate("each => each.clientWidth")
    assert abs(drawing.evaluate("each => each.getBoundingClientRect().width") - room) < 32


def test_the_time_slider_shows_a_workflow_as_it_was(page: Page, shop: Shop) -> None:
    page.goto(f"./workflows/{shop.failed_workflow}?view=graph")
    expect(page.locator(".graph .s-failed")).not_to_have_count(0)
    boxes = page.locator(".graph .node").evaluate_all("all => all.map(each => each.getBoundingClientRect().x)")
    page.locator("#slider").evaluate(
        "each => { each.value = Number(each.min) + 1; each.dispatchEvent(new Event('change', { bubbles: true })); }"
    )
    page.wait_for_url("**at=**")
    expect(page.locator(".graph .s-failed")).to_have_count(0)
    expect(page.get_by_text("As it was at")).to_be_visible()
    same = page.locator(".graph .node").evaluate_all("all => all.map(each => each.getBoundingClientRect().x)")
    assert same == boxes
    page.get_by_role("link", name="Now").click()
    expect(page.locator(".graph .s-failed")).not_to_have_count(0)


def test_the_time_slider_stands_at_the_end_while_a_workflow_goes_on(page: Page, shop: Shop) -> None:
    step = shop.app.enqueue("embroider", {"text": "slider"}, queue="gpu")
    shop.app.cancel(step, who="ann")
    page.goto(f"./workflows/{step.uuid}")
    slider = page.locator("#slider")
    before = slider.get_attribute("max")
    shop.app.retry(step, who="ann")
    expect(slider).not_to_have_attribute("max", before or "")
    assert slider.evaluate("each => each.value === each.max")


def test_a_schedule_is_created_edited_run_disabled_and_deleted(page: Page, shop: Shop) -> None:
    of = shop.app.schedules
    page.goto("./schedules/new")
    page.get_by_label("name", exact=True).fill("weekly-tidy")
    page.get_by_label("cron expression").fill("0 5 * * 1")
    page.get_by_label("its name").fill("report")
    page.get_by_label("parameters (JSON)").fill('{"day": "monday"}')
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("weekly-tidy")
    assert of.get("weekly-tidy").definition.params == {"day": "monday"}
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("cron expression").fill("0 6 * * 2")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("This would change: expression")).to_be_visible()
    assert of.get("weekly-tidy").definition.expression == "0 5 * * 1"
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("0 6 * * 2")
    page.locator("summary", has_text="Run now").click()
    page.get_by_role("button", name="Run now").click()
    expect(page.locator("main")).to_contain_text("manual")
    page.locator("summary", has_text="Disable").click()
    page.get_by_role("button", name="Disable").click()
    expect(page.get_by_role("button", name="Enable")).to_be_visible()
    page.get_by_role("button", name="Enable").click()
    expect(page.locator("summary", has_text="Disable")).to_be_visible()
    page.locator("summary", has_text="Delete").click()
    page.get_by_label("name", exact=True).fill("weekly-tidy")
    page.get_by_label("cancel live executions").check()
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/schedules")
    assert "weekly-tidy" not in [each.name for each in of.list()]


def test_a_backfill_shows_its_slots_before_it_runs_them(page: Page, shop: Shop) -> None:
    page.goto("./schedules/3/backfill?first=2026-01-01T00:00&last=2026-01-02T00:00")
    expect(page.locator("main")).to_contain_text("1 slot would run")
    page.get_by_role("button", name="Run 1 slot").click()
    expect(page.locator("main")).to_contain_text("backfill")
    assert [each.kind for each in shop.app.schedules.executions("old-import")] == ["backfill"]


def test_wrong_input_is_explained_and_nothing_is_written(page: Page, watched: Watched) -> None:
    watched.allowed.append("status of 400")
    page.goto("./schedules/new")
    page.get_by_label("name", exact=True).fill("wrong")
    page.get_by_label("cron expression").fill("61 * * * *")
    page.get_by_label("its name").fill("report")
    with page.expect_response("**/schedules/new") as answer:
        page.get_by_role("button", name="Create").click()
    assert answer.value.status == 400
    expect(page.locator("main")).to_contain_text("nothing was written")


def test_a_step_that_waits_for_its_next_attempt_gets_all_attempts_anew(page: Page, shop: Shop) -> None:
    step = shop.app.steps(action="poll", state="Pending", limit=1)[0]
    page.goto(f"./steps/{step.id}")
    expect(page.get_by_role("region", name="Why")).to_contain_text("in ")
    page.get_by_role("button", name="Reset attempts").click()
    expect(page.get_by_role("status").last).to_contain_text("Reset attempts was recorded")
    expect(page.get_by_role("region", name="By hand")).to_contain_text("reset attempts by ann")
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)  # the earlier counts are not kept
    assert shop.app.operations.of_step(step.id)[0].kind == "reset_attempts"


def test_the_steps_of_one_cause_are_retried_together(page: Page, shop: Shop) -> None:
    steps = [shop.app.enqueue("migrate", {"table": str(number)}) for number in range(2)]
    for step in steps:
        with pytest.raises(StepDidNotConclude):
            step.result(timeout=20)
    page.goto("./failures")
    row = page.locator("tbody tr", has_text=re.compile(r"table \d is locked"))
    row.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Retry 2 steps?")
    expect(page.locator("tbody")).to_contain_text("would change")
    page.get_by_role("button", name="Retry 2").click()
    expect(page.get_by_text("2 of 2")).to_be_visible()


def test_overrides_of_a_declared_schedule_are_removed(page: Page, shop: Shop) -> None:
    app = shop.app
    app.cron("0 3 * * *", name="declared")(app.job()(declared_job))
    app.schedules.reconcile()
    app.schedules.edit("declared", who="bob", expression="0 5 * * *")
    page.goto(f"./schedules/{app.schedules.get('declared').id}")
    expect(page.locator("main")).to_contain_text("overridden: expression")
    page.get_by_role("button", name="Remove overrides").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("0 3 * * *")
    app.schedules.disable("declared", who="test")


def declared_job() -> None: ...
