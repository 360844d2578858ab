"""Crashing at every commit: a correct workflow passes, and bugs in jobs and in the engine are found."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import structs

from stepwell import Stepwell, StepwellError, current_step
from stepwell.model.claimed import Claim
from stepwell.model.states import State
from stepwell.operate.reaper import Reaped, Reaper
from stepwell.run.ending import Ending
from stepwell.run.finish import Finisher
from stepwell.testing import CrashFailure, CrashPoint, behave, crash_everywhere, settle
from stepwell.testing.assertions import all_steps

effects: list[str] = []


def charge() -> str:
    effects.append("charged")
    return "receipt"


def ship(charge: str) -> str:
    return f"parcel for {charge}"


@pytest.fixture
def shop() -> Stepwell:
    app = Stepwell("postgresql://nowhere.invalid/production")
    flow = app.workflows("shop").workflow("fulfil")
    flow.step(charge)
    flow.step(ship)
    return app


@pytest.mark.slow
def test_a_workflow_settles_alike_whatever_commit_it_crashes_at(shop: Stepwell, shared_database_url: str) -> None:
    report = crash_everywhere(shop.workflows.get("fulfil", namespace="shop"), url=shared_database_url)
    assert report.commits >= 6  # two claims, two endings, the row of the worker, the end of the workflow
    assert len(report.points) == 2 * report.commits


def test_the_app_is_put_back_and_nothing_is_left_behind(tmp_path: Path) -> None:
    app = Stepwell(f"sqlite:///{tmp_path}/production.db")
    database = app.database
    crash_everywhere(behave(app), url=f"sqlite:///{tmp_path}/any.db", commits=[1, 2])
    assert app.database is database
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_trees_retries_delays_checkpoints_and_gates_survive_every_crash() -> None:
    app = Stepwell("sqlite://")
    job = behave(app)
    flow = app.workflows().workflow("flow")
    spawn = [{"label": "left"}, {"label": "right", "outcome": "skip"}]
    flow.step(name="tree", arguments={"spawn": spawn, "checkpoint": 1})(job)
    flow.step(name="retried", arguments={"outcome": "raise", "times": 1, "result": 2})(job)
    flow.step(name="throttled", after=["tree"], arguments={"outcome": "throttle", "times": 1, "seconds": 60})(job)
    flow.gate("approval", after=["throttled"], expires=3600)
    reasons: Counter[str | None] = Counter()

    def check(app: Stepwell) -> None:
        reasons.update(change.reason for step in all_steps(app) for change in app.history(step))

    crash_everywhere(flow, check=check)
    assert reasons["rescued"] > 2  # crashes did hit running steps


def test_nothing_that_code_does_after_the_crash_is_stored() -> None:
    """A crash at a checkpoint is an exception in the code of the job: it must not end as an error of the job."""
    app = Stepwell("sqlite://")
    job = behave(app)
    crash_everywhere(lambda: job.options(max_retries=0).enqueue(checkpoint=1), app=app)


def test_a_side_effect_that_is_not_idempotent_is_found_by_the_check(shop: Stepwell) -> None:
    def begin() -> None:
        effects.clear()
        shop.workflows.start("fulfil", namespace="shop")

    def charged_once(app: Stepwell) -> None:
        assert len(effects) == 1, f"charged {len(effects)} times"

    with pytest.raises(CrashFailure, match="AssertionError: charged 2 times") as caught:
        crash_everywhere(begin, app=shop, check=charged_once)
    [point] = caught.value.problems  # between the side effect and the commit of its end
    assert point.moment == "before"
    assert f"crash {point} (step 1 (shop.fulfil.charge) Running to Completed):" in str(caught.value)
    with pytest.raises(CrashFailure, match="1 of 2 crashes left something wrong"):
        crash_everywhere(begin, app=shop, check=charged_once, commits=[point.commit])


def test_a_result_that_depends_on_what_is_kept_in_memory_is_found() -> None:
    app = Stepwell("sqlite://")
    runs: list[int] = []

    @app.job
    def count() -> int:
        runs.append(1)
        return len(runs)

    def begin() -> None:
        runs.clear()
        count.enqueue()

    with pytest.raises(CrashFailure, match=r"count {}: ended as \('Completed', 2\) instead of \('Completed', 1\)"):
        crash_everywhere(begin, app=app)
    crash_everywhere(begin, app=app, compare=lambda step: step.state)


def test_an_engine_that_writes_children_in_a_commit_of_their_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Stepwell("sqlite://")
    leaf = behave(app)

    @app.job
    def parent() -> None:
        current_step().children(leaf.draft())

    crash_everywhere(parent)
    whole = Finisher.write

    def in_two_commits(self: Finisher, claim: Claim, ending: Ending) -> State | None:
        if ending.children:
            database = self._database
            database.transact(lambda tx: self._create_children(tx, claim, ending.children, database.now()))
        return whole(self, claim, structs.replace(ending, children=[]))

    monkeypatch.setattr(Finisher, "write", in_two_commits)
    with pytest.raises(
        CrashFailure, match=r"parent {} > behave {}: ended as .* and .* instead of \('Completed', None\)$"
    ):
        crash_everywhere(parent)


def test_an_engine_whose_reaper_does_nothing_is_found(shop: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reaper, "round", lambda self: Reaped())
    with pytest.raises(CrashFailure, match=r"is still Running") as caught:
        crash_everywhere(shop.workflows.get("fulfil", namespace="shop"))
    assert all(isinstance(point, CrashPoint) for point in caught.value.problems)


def test_something_wrong_without_any_crash_is_reported_as_such(shop: Stepwell) -> None:
    def wrong(app: Stepwell) -> None:
        raise AssertionError("never")

    with pytest.raises(AssertionError, match="without any crash:\n  the check raised AssertionError: never"):
        crash_everywhere(shop.workflows.get("fulfil", namespace="shop"), check=wrong)


def test_the_commits_of_begin_are_crash_points_on_request_and_it_is_called_again() -> None:
    app = Stepwell("sqlite://")
    job = behave(app)

    def idempotent() -> None:
        for key in ("a", "b"):
            job.options(key=key).enqueue(result=key)

    def careless() -> None:
        for key in ("a", "b"):
            job.enqueue(result=key)

    usual = crash_everywhere(careless, app=app)
    report = crash_everywhere(idempotent, app=app, begin_too=True)
    assert report.commits == usual.commits + 2
    with pytest.raises(CrashFailure, match=r"behave .*: ended as .* and .* instead of"):
        crash_everywhere(careless, app=app, begin_too=True)


def test_work_can_answer_gates() -> None:
    app = Stepwell("sqlite://")
    flow = app.workflows().workflow("flow")
    gate = flow.gate("approval", result=bool)

    def work(app: Stepwell) -> None:
        settle(app)
        [step] = app.steps()
        if step.state is State.PENDING:
            app.workflows.run(str(step.workflow_id)).answer(gate, True, who="ann")
        settle(app)

    assert crash_everywhere(flow, work=work).commits > 0


def test_a_function_needs_its_app() -> None:
    with pytest.raises(StepwellError, match="pass app="):
        crash_everywhere(lambda: None)


@pytest.mark.slow
def test_child_processes_are_really_killed(shared_database_url: str, tmp_path: Path) -> None:
    app = Stepwell("sqlite://")

    @app.job
    def note() -> str:
        with (tmp_path / "runs").open("a") as file:
            file.write(f"{os.getpid()}\n")
        return "noted"

    report = crash_everywhere(note, url=shared_database_url, processes=True)
    pids = (tmp_path / "runs").read_text().split()
    # One run in each round; and where the first was killed before its end was committed, one in another process.
    assert len(pids) > 1 + 2 * report.commits
    assert len(set(pids)) == len(pids)
    assert str(os.getpid()) not in pids


def settle_in_a_thread(app: Stepwell) -> None:
    with ThreadPoolExecutor(1) as thread:
        thread.submit(settle, app).result()


@pytest.mark.slow
@pytest.mark.parametrize(("work", "commits"), [(settle, [3, 4]), (settle_in_a_thread, [3])])
def test_a_job_that_kills_its_process_settles_too(work: Callable[[Stepwell], object], commits: list[int]) -> None:
    app = Stepwell("sqlite://")
    job = behave(app)
    crash_everywhere(lambda: job.enqueue("kill", times=1), app=app, work=work, processes=True, commits=commits)


def test_an_error_in_a_child_process_is_raised_in_the_test() -> None:
    app = Stepwell("sqlite://")

    def begin() -> None:
        raise ZeroDivisionError("nothing to begin with")

    with pytest.raises(StepwellError, match="ZeroDivisionError: nothing to begin with"):
        crash_everywhere(begin, app=app, processes=True)
