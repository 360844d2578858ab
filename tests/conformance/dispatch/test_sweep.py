"""The sweep finds nothing on healthy data, and repairs exactly what was broken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stepwell.run.inline import InlineRunner
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP, every_state, run, run_level, tick


def findings(engine: Engine) -> dict[str, str]:
    """What the sweep says, by the labels of the steps; it says each thing once."""
    labels = {ref.id: label for label, ref in engine.refs.items()}
    found = engine.app.sweep()
    assert len({finding.step_id for finding in found}) == len(found)
    return {labels[finding.step_id]: finding.finding for finding in found}


def id_of(engine: Engine, label: str) -> int:
    return engine.refs[label].id


def lose_marks(engine: Engine) -> None:
    assert engine.change("DELETE FROM steps_marks") >= 1


def lose_agenda(engine: Engine, label: str) -> None:
    assert engine.change("DELETE FROM steps_agenda WHERE step_id = :id", id=id_of(engine, label)) == 1


def set_stage(engine: Engine, label: str, stage: str) -> None:
    statement = "UPDATE steps_agenda SET status = :stage WHERE step_id = :id"
    assert engine.change(statement, stage=stage, id=id_of(engine, label)) == 1


# Healthy ----------------------------------------------------------------------------------------------------


def test_it_finds_nothing_at_any_moment_of_healthy_work(engine: Engine) -> None:
    engine.plant(
        "root(first:raise/ok, beside(deep:fail, !help) > second, !cleanup), left:throttle/ok, right:skip,"
        " join<left+right",
        group=GROUP,
    )
    before = engine.snapshot()
    assert findings(engine) == {}
    assert engine.snapshot() == before
    with engine.worker(slots=2) as runner:
        for _ in range(200):
            quiet = tick(engine.app).changed == 0
            assert findings(engine) == {}
            for claim in runner.claim(1):
                assert findings(engine) == {}
                run(runner, claim)
                quiet = False
            if quiet:
                engine.clock.advance(5)
            if not engine.app.steps(state="Pending") and not engine.app.steps(state="Running"):
                break
    assert engine.state("root") == "Failed"
    assert engine.state("join") == "Completed"
    assert engine.app.check_invariants() == []


def test_it_finds_nothing_while_steps_are_in_all_nine_states(engine: Engine) -> None:
    with engine.worker() as runner:
        claims = every_state(engine, runner)
        assert findings(engine) == {}
        run(runner, *claims.values())
    engine.settle()


# Lost marks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outcome", "end"), [("ok", "Completed"), ("fail", "Failed")])
def test_a_parent_whose_last_child_ended_unannounced_is_decided(engine: Engine, outcome: str, end: str) -> None:
    engine.plant(f"parent(child:{outcome})", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "parent")
        run_level(engine, runner, "child")
    lose_marks(engine)
    assert engine.tick() == 0  # nothing tells the dispatcher
    assert findings(engine) == {"parent": "all its children have ended, but nothing marks it"}
    engine.settle()
    assert engine.state("parent") == end


@pytest.mark.parametrize(("action", "end"), [("cancel", "Cancelled"), ("skip", "Skipped")])
def test_descendants_of_a_parent_that_ended_unannounced_go_with_it(engine: Engine, action: str, end: str) -> None:
    engine.plant("parent(child(grandchild))", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "parent")
    getattr(engine.app, action)(engine.refs["parent"], who="tester")
    engine.change("DELETE FROM steps_marks")
    assert findings(engine)["parent"] == "it has ended, but some of its children have not"
    engine.settle()
    assert engine.states("child", "grandchild") == {"child": end, "grandchild": end}


def test_a_handler_whose_block_failed_unannounced_is_woken(engine: Engine) -> None:
    engine.plant("work:fail, !cleanup", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "work")
    lose_marks(engine)
    assert findings(engine) == {"work": "it failed, but the handlers of its block are still dormant"}
    engine.settle()
    assert engine.state("cleanup") == "Completed"


@pytest.mark.parametrize("line", ["first:fail > second", "first:fail, second<first"])
def test_a_step_behind_a_failure_that_was_not_announced_becomes_not_runnable(engine: Engine, line: str) -> None:
    engine.plant(line, group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "first")
    lose_marks(engine)
    assert findings(engine) == {"second": "its conditions are unsatisfiable, but it is still Pending"}
    engine.settle()
    assert engine.state("second") == "NotRunnable"


@pytest.mark.parametrize("line", ["first > second", "first, second<first"])
def test_a_step_that_became_ready_without_a_mark_runs(engine: Engine, line: str) -> None:
    engine.plant(line, group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "first")
    lose_marks(engine)
    assert engine.tick() == 0
    assert findings(engine) == {"second": "it is ready, but not on the agenda"}
    engine.settle()
    assert engine.state("second") == "Completed"


# The agenda -------------------------------------------------------------------------------------------------


def test_a_root_that_fell_off_the_agenda_runs(engine: Engine) -> None:
    engine.plant("lost, beside", group=GROUP)
    lose_agenda(engine, "lost")
    assert findings(engine) == {"lost": "it is ready, but not on the agenda"}
    engine.settle()
    assert engine.states() == {"lost": "Completed", "beside": "Completed"}


Reach = Callable[[Engine, InlineRunner], str]


def dispatched(engine: Engine, runner: InlineRunner) -> str:
    engine.tick()
    return "Dispatched"


def running(engine: Engine, runner: InlineRunner) -> str:
    engine.claim(runner, "step")
    return "Running"


@pytest.mark.parametrize("reach", [dispatched, running])
def test_a_step_that_is_on_its_way_and_fell_off_the_agenda_is_put_back(engine: Engine, reach: Reach) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        state = reach(engine, runner)
        before = engine.snapshot()["steps_agenda"]
        lose_agenda(engine, "step")
        assert findings(engine) == {"step": f"it is {state}, but not on the agenda"}
        assert engine.snapshot()["steps_agenda"] == before


@pytest.mark.parametrize("stage", ["open", "running"])
def test_a_dispatched_step_under_a_wrong_stage_is_claimed_and_runs(engine: Engine, stage: str) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        engine.tick()
        set_stage(engine, "step", stage)
        assert findings(engine) == {"step": f"it is Dispatched, but on the agenda as {stage}"}
        run_level(engine, runner, "step")
    assert engine.state("step") == "Completed"


def test_a_pending_step_noted_as_dispatched_runs(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    set_stage(engine, "step", "dispatched")
    assert findings(engine) == {"step": "it is Pending, but on the agenda as dispatched"}
    engine.settle()
    assert engine.state("step") == "Completed"


def test_a_step_that_is_on_the_agenda_too_early_waits_its_turn(engine: Engine) -> None:
    engine.plant("first:fail > second", group=GROUP)
    engine.tick()  # while there are marks, the ticks decide and the sweep waits
    engine.change(
        'INSERT INTO steps_agenda (step_id, status, "group", queue, action, rank)'
        " SELECT id, 'open', \"group\", queue, action, 1 FROM steps WHERE id = :id",
        id=id_of(engine, "second"),
    )
    assert findings(engine) == {"second": "it waits for other steps, but is on the agenda as open"}
    engine.settle()
    assert engine.path("second") == ["Pending", "NotRunnable"]


def test_a_step_that_ended_leaves_the_agenda(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    kept = engine.sql("SELECT * FROM steps_agenda")[0]
    engine.settle()
    columns = ", ".join(f'"{name}"' for name in kept)
    engine.change(f"INSERT INTO steps_agenda ({columns}) VALUES ({', '.join(f':{name}' for name in kept)})", **kept)
    assert findings(engine) == {"step": "it is Completed, but on the agenda as open"}
    assert engine.sql("SELECT * FROM steps_agenda") == []


# Blocks -----------------------------------------------------------------------------------------------------


def test_a_member_that_its_block_forgot_holds_back_its_successor_again(engine: Engine) -> None:
    engine.plant("first > second", group=GROUP)
    engine.tick()
    before = engine.snapshot()
    assert engine.change("DELETE FROM steps_unconcluded WHERE step_id = :id", id=id_of(engine, "first")) == 1
    assert findings(engine) == {"first": "it is Pending, but has no block entry"}
    assert engine.snapshot() == before
    engine.settle()


@pytest.mark.parametrize(
    ("column", "wrong", "finding"),
    [
        ("ended", True, "it is Pending, but its block entry is outdated"),
        ("index", 7, "its block entry has the wrong block, type, index or workflow"),
        ("type", "resolve-exception", "its block entry has the wrong block, type, index or workflow"),
    ],
)
def test_a_member_that_its_block_knows_wrongly_is_noted_as_it_is(
    engine: Engine, column: str, wrong: object, finding: str
) -> None:
    engine.plant("first > second > third", group=GROUP)
    engine.tick()
    before = engine.snapshot()
    statement = f'UPDATE steps_unconcluded SET "{column}" = :wrong WHERE step_id = :id'
    assert engine.change(statement, wrong=wrong, id=id_of(engine, "second")) == 1
    assert findings(engine) == {"second": finding}
    assert engine.snapshot() == before
    engine.settle()
    assert engine.state("third") == "Completed"


def test_a_concluded_member_that_is_still_listed_as_unconcluded_is_removed_and_the_rest_runs(engine: Engine) -> None:
    engine.plant("parent(first > second)", group=GROUP)
    kept = engine.sql("SELECT * FROM steps_unconcluded WHERE step_id = :id", id=id_of(engine, "first"))[0]
    with engine.worker() as runner:
        run_level(engine, runner, "parent")
        run_level(engine, runner, "first")
        names = ", ".join(f'"{name}"' for name in kept)
        values = ", ".join(f":{name}" for name in kept)
        engine.change(f"INSERT INTO steps_unconcluded ({names}) VALUES ({values})", **kept)
        engine.tick()
        assert engine.state("second") == "Pending"
    assert findings(engine)["first"] == "it is Completed, but its block entry is outdated"
    engine.settle()
    assert engine.states("parent", "second") == {"parent": "Completed", "second": "Completed"}
