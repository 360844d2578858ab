"""The page of a large workflow: counts and stacks, opened where the address says; pages of the timeline; attempts."""

from __future__ import annotations

import html
import re

import pytest
from starlette.testclient import TestClient

from stepwell import NewStep, Retry, Stepwell, current_step
from stepwell.testing import ManualClock
from stepwell.web.screens import workflow_graph, workflow_outline, workflow_timeline
from tests.conformance.web.test_dashboard import client_of


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_outline, "LARGE", 10)
    monkeypatch.setattr(workflow_timeline, "ROWS", 8)


@pytest.fixture
def root(app: Stepwell) -> int:
    """A root with twenty children that wait, one that failed, and one of another job that runs its children."""

    @app.job(max_retries=0)
    def broken() -> None:
        raise ValueError("no ink")

    @app.job()
    def parent() -> None:
        app.enqueue_many([NewStep(action="unknown", parent=current_step()) for _ in range(3)])

    top = NewStep(action="top")
    made = app.enqueue_many(
        [top, NewStep(action="broken", parent=top), *(NewStep(action="unknown", parent=top) for _ in range(20))]
    )
    app.run_until_idle()
    return int(made[0].id)


@pytest.fixture
def page(app: Stepwell) -> TestClient:
    return client_of(app)


def linked(text: str, attributes: str) -> str | None:
    """The address of the only link with these attributes."""
    found = re.findall(rf'href="([^"]+)" {attributes}', text)
    assert len(found) < 2
    return html.unescape(found[0]).removeprefix("/step-dispatcher") if found else None


def rows_of(text: str) -> list[int]:
    return [int(each) for each in re.findall(r'class="row [^"]*" data-key="(\d+)"', text)]


def declare(app: Stepwell, items: int) -> str:
    def price(item: int) -> int:
        if item == 3:
            raise ValueError("no price")
        return item

    def publish(price: list[int]) -> int:
        return len(price)

    flow = app.workflows("shop").workflow("catalogue")
    flow.step(each={"item": "context.items"}, retry_limit=1)(price)
    flow.step()(publish)
    run = flow.start({"items": list(range(items))})
    app.run_until_idle()
    return run.id


def test_a_large_workflow_is_stacks_with_counts_and_what_failed(app: Stepwell, page: TestClient) -> None:
    workflow = declare(app, 30)
    text = page.get(f"/workflows/{workflow}").text
    assert "29 Completed" in text
    assert "Failed here" in text
    assert "no price" in text
    element = app.step(app.workflows.run(workflow).step("price").id)
    opened = page.get(f"/workflows/{workflow}?open=s{element.id}").text
    assert "price ×30" in opened
    [key] = set(re.findall(r'data-key="o-(g\d+)"', opened))
    assert "price[29]" in page.get(f"/workflows/{workflow}?open=s{element.id}&open={key}").text
    assert "price[29]" not in opened
    assert "over 10 steps" not in page.get("/workflows").text  # that list has a limit of its own


def test_a_stack_is_opened_and_closed_by_the_address(app: Stepwell, page: TestClient, root: int) -> None:
    workflow = app.step(root).uuid
    closed = page.get(f"/workflows/{workflow}").text
    assert "unknown ×20" in closed
    opened = page.get(linked(closed, 'aria-expanded="false"') or "").text
    assert opened.count('data-key="o-s') == closed.count('data-key="o-s') + 20
    again = page.get(linked(opened, 'aria-expanded="true"') or "").text
    assert again.count('data-key="o-s') == closed.count('data-key="o-s')


def test_the_graph_of_a_large_workflow_has_a_box_for_each_stack(app: Stepwell, page: TestClient, root: int) -> None:
    text = page.get(f"/workflows/{app.step(root).uuid}?view=graph").text
    assert "×20" in text
    assert len(re.findall(r'class="node ', text)) == 3
    assert len(re.findall(r'class="edge"', text)) == 2


def test_boxes_of_a_declared_workflow_are_joined_by_its_edges(app: Stepwell, page: TestClient) -> None:
    text = page.get(f"/workflows/{declare(app, 30)}?view=graph").text
    assert "×30 ✗1" in text
    assert len(re.findall(r'class="node ', text)) == 2
    assert len(re.findall(r'class="edge"', text)) == 1


def test_a_timeline_has_the_rows_of_one_page(app: Stepwell, page: TestClient, root: int) -> None:
    base = f"/workflows/{app.step(root).uuid}?view=timeline"
    seen: list[int] = []
    address: str | None = base
    while address is not None:
        text = page.get(address).text
        seen += rows_of(text)
        assert len(rows_of(text)) <= 9  # and the root
        address = linked(text, 'rel="next"')
    assert sorted(seen) == seen
    assert len(seen) == 22


def test_a_small_workflow_has_pages_of_its_timeline_in_the_order_of_the_tree(app: Stepwell, page: TestClient) -> None:
    root = NewStep(action="top")
    made = app.enqueue_many([root, *(NewStep(action="unknown", parent=root) for _ in range(9))])
    base = f"/workflows/{app.step(made[0]).uuid}?view=timeline"
    first = page.get(base).text
    assert "1 to 8 of 10 steps" in first
    assert "9 to 10 of 10 steps" in page.get(f"{base}&from={made[8].id}").text


def test_a_timeline_shows_all_attempts_or_one(app: Stepwell, clock: ManualClock, page: TestClient) -> None:
    @app.job(max_retries=2)
    def flaky() -> None:
        if current_step().attempts < 3:
            raise Retry("not yet", in_=4)

    step = app.enqueue("flaky")
    for _ in range(3):
        app.run_until_idle()
        clock.advance(5)
    base = f"/workflows/{app.step(step).uuid}?view=timeline"
    every = page.get(base).text
    assert "attempt: all" in every
    assert [each for each in range(1, 5) if f"attempt={each}" in every] == [1, 2, 3]
    assert len(re.findall(r"<title>attempt \d: own code", every)) == 3
    second = page.get(f"{base}&attempt=2").text
    assert re.findall(r"<title>(attempt \d): own code", second) == ["attempt 2"]
    waits = [
        len(re.findall("<title>waits for its next attempt", page.get(f"{base}&attempt={attempt}").text))
        for attempt in (1, 2, 3)
    ]
    assert waits == [0, 1, 1], "a wait belongs to the attempt that follows it"
    assert "None of these steps has had an attempt 9" in page.get(f"{base}&attempt=9").text


def test_siblings_that_are_alike_are_one_box_until_it_is_opened(app: Stepwell, page: TestClient) -> None:
    root = NewStep(action="top")
    made = app.enqueue_many([root, *(NewStep(action="unknown", parent=root) for _ in range(5))])
    base = f"/workflows/{app.step(made[0]).uuid}?view=graph"
    assert len(re.findall(r'class="node ', page.get(base).text)) == 2
    assert len(re.findall(r'class="node ', page.get(f"{base}&open=g{made[1].id}").text)) == 6


def test_a_graph_of_too_many_boxes_is_a_tree_unless_it_is_asked_for(
    app: Stepwell, page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow_graph, "USUAL_BOXES", 4)
    monkeypatch.setattr(workflow_graph, "MOST_BOXES", 6)
    root = NewStep(action="top")
    made = app.enqueue_many([root, *(NewStep(action=f"job {number}", parent=root) for number in range(5))])
    base = f"/workflows/{app.step(made[0]).uuid}?view=graph"
    text = page.get(base).text
    assert "A graph of 6 boxes is unreadable" in text
    assert 'class="tree"' in text
    assert "Draw it anyway" in text
    assert len(re.findall(r'class="node ', page.get(f"{base}&most=6").text)) == 6
    app.enqueue("one more", parent=made[0])
    assert "Draw it anyway" not in page.get(f"{base}&most=6&again").text


def test_the_list_counts_the_steps_of_small_workflows_only(
    app: Stepwell, page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.web.screens.workflows.LARGE", 10)
    declare(app, 30)
    assert "over 10 steps" in page.get("/workflows").text
