"""Versions: rows keep the graph with which they were started, whatever is declared later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import State, Stepwell, StepwellError, Workflow
from stepwell.run.inline import InlineRunner
from stepwell.testing import ManualClock
from tests.conformance.support.engine import other_app
from tests.conformance.workflow.flows import states_of


@pytest.fixture
def app(shared_database_url: str, clock: ManualClock) -> Iterator[Stepwell]:
    """On every database that a second process can open."""
    with Stepwell(shared_database_url, clock=clock) as app:
        yield app


def fetch() -> int:
    return 1


def store(fetch: int) -> int:
    return fetch


def declare(app: Stepwell, *, retry_limit: int = 3, replace: bool = False, with_store: bool = True) -> Workflow[Any]:
    flow = app.workflows("shop").workflow("loading", version="1", replace=replace)
    flow.step(retry_limit=retry_limit)(fetch)
    if with_store:
        flow.step()(store)
    return flow


def test_the_same_version_with_other_content_is_refused_across_processes(app: Stepwell, clock: ManualClock) -> None:
    declare(app).start()
    with other_app(app.database.url, clock) as other:
        declare(other).start()
    with other_app(app.database.url, clock) as other, pytest.raises(StepwellError, match="another content"):
        declare(other, retry_limit=5).start()
    assert len(app.steps()) == 4


def test_a_development_flag_overwrites_a_version(app: Stepwell, clock: ManualClock) -> None:
    declare(app).start()
    with other_app(app.database.url, clock) as other:
        run = declare(other, retry_limit=5, replace=True).start()
        assert run.step("fetch").max_retries == 4
        declare(other, retry_limit=5, replace=True).start()
    with other_app(app.database.url, clock) as third, pytest.raises(StepwellError, match="another content"):
        declare(third).start()


def test_no_later_definition_touches_a_live_run(app: Stepwell, clock: ManualClock) -> None:
    run = declare(app).start()
    with other_app(app.database.url, clock) as other:
        declare(other, retry_limit=1, replace=True, with_store=False).check()
        other.job(name="shop.loading.store")(store)
        other.run_until_idle()
    assert states_of(app, run.id) == {"fetch": "Completed", "store": "Completed"}


def test_a_step_whose_action_is_gone_waits_unspent_and_explain_says_so(app: Stepwell, clock: ManualClock) -> None:
    run = declare(app).start()
    with other_app(app.database.url, clock) as other:
        declare(other, replace=True, with_store=False).check()
        other.run_until_idle()
        step = run.step("store")
        assert (step.state, step.attempts) == (State.PENDING, 0)
        assert "'shop.loading.store'" in other.explain(step).summary
        assert run.execution().execution_status == "has_ready_steps"
    app.run_until_idle()
    assert run.state == "complete"


# What live steps will receive ---------------------------------------------------------------------------------


@dataclass
class OldOrder:
    id: int
    gift: str = "no"


@dataclass
class NewOrder:
    id: int
    country: str


def pick(context: OldOrder) -> str:
    return f"picked {context.id}"


def label(item: str, pick: str) -> str:
    return f"{item} {pick}"


def ship(label: list[str], pick: str) -> str:
    return pick


def old_code(app: Stepwell) -> Workflow[Any]:
    flow = app.workflows("shop").workflow("ordering")
    flow.step()(pick)
    flow.step(each={"item": "context.items"})(label)
    flow.step()(ship)
    return flow


def changed(app: Stepwell, **code: Any) -> Stepwell:
    """The jobs of a later deploy."""
    for name in ("pick", "label", "ship"):
        app.job(name=f"shop.ordering.{name}")(code.get(name, globals()[name]))
    return app


def new_pick(context: NewOrder) -> str:
    return context.country


def new_label(item: int, pick: str) -> str:
    return f"{item}"


def new_ship(label: list[str], pick: int) -> str:
    return str(pick)


def ship_with_more(label: list[str], pick: str, carrier: str) -> str:
    return carrier


def ship_with_less(label: list[str]) -> int:
    return len(label)


def problems(app: Stepwell, **options: Any) -> list[tuple[str, str]]:
    return [(each.step, each.problem) for each in app.workflows.check_live(**options)]


def test_check_live_finds_nothing_wrong_with_the_code_of_today(app: Stepwell, clock: ManualClock) -> None:
    run = old_code(app).start({"id": 1, "items": ["a", "b"]})
    assert problems(app) == []
    app.inline_runner().close()
    app.run_until_idle()
    assert run.state == "complete"
    with other_app(app.database.url, clock) as other:
        assert problems(changed(other, pick=new_pick)) == []  # everything has run


def test_check_live_decodes_contexts_and_elements(app: Stepwell, clock: ManualClock) -> None:
    run = old_code(app).start({"id": 1, "items": ["a", "2"]})
    with other_app(app.database.url, clock) as other:
        changed(other, pick=new_pick, label=new_label)
        found = list(other.workflows.check_live())
    assert {(each.workflow_id, each.step) for each in found} == {(run.id, "pick"), (run.id, "label")}
    assert "country" in found[0].problem
    assert "element 0" in found[1].problem
    assert run.id in str(found[0])


def test_check_live_decodes_results_that_are_there_and_waits_for_the_others(app: Stepwell, clock: ManualClock) -> None:
    run = old_code(app).start({"id": 1, "items": ["a", "b"]})
    with other_app(app.database.url, clock) as other:
        changed(other, ship=new_ship)
        assert problems(other) == []  # nothing is known yet about the result of `pick`
        with _closing(app) as runner:
            app.dispatcher().run_until_quiet()
            while run.step("pick").state is not State.COMPLETED:
                runner.round()
                app.dispatcher().run_until_quiet()
        ((step, problem),) = problems(other)
        assert step == "ship"
        assert "pick" in problem


def _closing(app: Stepwell) -> closing[InlineRunner]:
    return closing(app.inline_runner(slots=1))


@pytest.mark.parametrize(("code", "problem"), [(ship_with_more, "carrier"), (ship_with_less, "pick")])
def test_check_live_compares_parameters(app: Stepwell, clock: ManualClock, code: Any, problem: str) -> None:
    old_code(app).start({"id": 1, "items": []})
    with other_app(app.database.url, clock) as other:
        changed(other, ship=code)
        ((step, found),) = problems(other)
    assert step == "ship"
    assert problem in found


@pytest.mark.parametrize("page_size", [1, 2, 100])
def test_check_live_reads_in_pages(app: Stepwell, clock: ManualClock, page_size: int) -> None:
    flow = old_code(app)
    for number in range(5):
        flow.start({"id": number, "items": []})
    with other_app(app.database.url, clock) as other:
        changed(other, pick=new_pick)
        assert len(problems(other, page_size=page_size)) == 5
        with pytest.raises(ValueError, match="page_size"):
            problems(other, page_size=0)


def test_check_live_decodes_the_elements_of_a_map_that_runs(app: Stepwell, clock: ManualClock) -> None:
    run = old_code(app).start({"id": 1, "items": ["a", "b"]})
    with _closing(app) as runner:
        while not run.step("label").has_children:
            app.dispatcher().run_until_quiet()
            runner.round()
    with other_app(app.database.url, clock) as other:
        changed(other, label=new_label)
        assert [step for step, _ in problems(other)] == ["label", "label"]
