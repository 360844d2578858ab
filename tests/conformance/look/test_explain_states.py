"""`explain` for steps that wait although nothing before them does, that make no progress, or that have ended."""

from __future__ import annotations

import re

import pytest

from stepwell import Stepwell
from stepwell.look.explain import Explanation, RootCause
from stepwell.model.leases import LEASE_SECONDS
from stepwell.run.ending import Ending
from stepwell.share.headroom import Kind
from stepwell.testing import ManualClock
from tests.conformance.support.engine import Engine, plain_connection
from tests.conformance.support.ticks import GROUP, insert_sql, run, run_level

WORKFLOW = "00000000-0000-4000-8000-000000000000"


def explain(engine: Engine, label: str) -> Explanation:
    return engine.app.explain(engine.refs[label])


def conditions(engine: Engine, label: str) -> list[str]:
    return [obstacle.condition for obstacle in explain(engine, label).obstacles]


def root(engine: Engine, label: str) -> RootCause:
    """The only root cause of a step."""
    (found,) = explain(engine, label).roots
    return found


# Dispatched -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), [("total", ""), ("queue", "default"), ("action", "behave")])
def test_a_dispatched_step_behind_a_reached_limit_names_it(engine: Engine, kind: Kind, name: str) -> None:
    engine.plant("busy, step", group=GROUP)
    with engine.worker() as runner:
        engine.tick()
        assert engine.states() == {"busy": "Dispatched", "step": "Dispatched"}
        engine.app.limits.set(kind, name, 1)
        (busy,) = runner.claim(8)
        what = "the total" if kind == "total" else f"{kind} '{name}'"
        assert (conditions(engine, "step"), root(engine, "step").message) == (
            ["limit"],
            f"{what} is at its limit (1): 1 steps are running",
        )
        assert not explain(engine, "step").eligible
        assert root(engine, "step").advice == (f"stepwell limits --{kind} {name}=2".replace(" =", " "),)
        run(runner, busy)
        assert explain(engine, "step").obstacles == []
        run_level(engine, runner, "step")


def test_a_step_behind_a_key_names_the_limit_that_holds_up_the_step_with_the_key(engine: Engine) -> None:
    engine.plant("busy, first", group=GROUP)
    engine.add("holder", group=GROUP, concurrency_key="k")
    engine.add("step", group=GROUP, concurrency_key="k")
    with engine.worker() as runner:
        engine.tick()
        assert engine.states("holder", "step") == {"holder": "Dispatched", "step": "Pending"}
        engine.app.limits.set("total", "", 1)
        claims = runner.claim(8)
        assert [obstacle.steps for obstacle in explain(engine, "step").obstacles if obstacle.condition == "key"] == [
            (engine.refs["holder"].id,)
        ]
        found = root(engine, "step")
        assert (found.condition, found.steps) == ("limit", (engine.refs["step"].id, engine.refs["holder"].id))
        engine.app.limits.set("total", "", None)
        run(runner, *claims)
    engine.settle()


def test_a_dispatched_step_that_no_live_worker_serves_says_so_and_that_it_will_be_returned(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker():
        engine.tick()
        engine.clock.advance(LEASE_SECONDS + 1)
        assert conditions(engine, "step") == ["workers"]
        assert "no live worker serves queue 'default' and action 'behave'" in explain(engine, "step").summary
        assert "the reaper will return this step to Pending" in explain(engine, "step").summary
        assert engine.app.reaper().round().recovered == [engine.refs["step"].id]


def test_a_dispatched_step_says_that_every_slot_is_busy(engine: Engine) -> None:
    engine.plant("busy, step", group=GROUP)
    with engine.worker(slots=1) as runner:
        engine.tick()
        (busy,) = runner.claim(1)
        assert conditions(engine, "step") == ["slots"]
        assert "every slot" in explain(engine, "step").summary
        run(runner, busy)
        assert explain(engine, "step").summary == "dispatched to queue 'default'; the next free worker claims it"


# Running --------------------------------------------------------------------------------------------------


def test_a_running_step_of_a_silent_worker_says_since_when_and_when_it_is_rescued(engine: Engine) -> None:
    engine.plant("step, behind<step", group=GROUP)
    with engine.worker() as runner:
        engine.claim(runner, "step")
        heard = engine.clock.now()
        engine.clock.advance(5)
        assert explain(engine, "step").obstacles == []
        engine.clock.advance(15)
        (obstacle,) = explain(engine, "step").obstacles
        dead_at = engine.sql("SELECT alive_until FROM steps_workers")[0]["alive_until"]
        assert obstacle.condition == "heartbeat"
        assert f"no heartbeat from worker {runner.worker.id} since {heard:%Y-%m-%d %H:%M:%S}" in obstacle.message
        assert str(obstacle.changes_at)[:19] == str(dead_at)[:19]
        assert explain(engine, "behind").expected_at == obstacle.changes_at
        runner.worker.heartbeat()
        assert explain(engine, "step").obstacles == []
        heard = engine.clock.now()
        engine.clock.advance(LEASE_SECONDS)
        message = explain(engine, "step").obstacles[0].message
        assert f"since {heard:%Y-%m-%d %H:%M:%S} UTC: dead since {engine.clock.now():%Y-%m-%d %H:%M:%S} UTC" in message
        assert "the reaper returns this step to Pending" in message
        for label in ("step", "behind"):
            then = "no live worker serves queue 'default' and action 'behave'"
            roots = {(found.condition, found.message, found.is_later) for found in explain(engine, label).roots}
            assert roots == {("heartbeat", message, False), ("workers", then, label == "step")}
        assert engine.app.reaper().round().rescued == [engine.refs["step"].id]


def test_a_running_step_whose_worker_is_gone_or_that_is_past_its_deadline_says_so(engine: Engine) -> None:
    engine.plant("step", group=GROUP, timeout=10)
    with engine.worker() as runner:
        engine.claim(runner, "step")
        for _ in range(5):
            engine.clock.advance(10)
            runner.worker.heartbeat()
        assert "it has run past its deadline" in explain(engine, "step").summary
        engine.change("DELETE FROM steps_workers")
        assert f"worker {runner.worker.id} is no longer registered" in explain(engine, "step").summary
        assert engine.app.reaper().round().rescued == [engine.refs["step"].id]


def test_a_parent_that_has_nothing_left_to_wait_for_and_no_mark_says_who_repairs_it(engine: Engine) -> None:
    engine.plant("root(child)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        run_level(engine, runner, "child")
        assert conditions(engine, "root") == ["decision"]
        assert "the next tick decides it" in explain(engine, "root").summary
        assert engine.app.check_invariants() == []
        engine.change("DELETE FROM steps_marks")
        engine.plant("other(one)", group=GROUP)
        run_level(engine, runner, "other")  # a tick, and a mark, of the same group
        engine.plant("another(two)", group=GROUP)
        assert engine.state("root") == "Running"
        found = root(engine, "root")
        assert (found.condition, found.advice) == ("bookkeeping", ("stepwell doctor --sweep",))
        assert "nothing that it waits for is left" in found.message
        (violation,) = engine.app.check_invariants()
        assert (violation.invariant, violation.step_id) == ("no waiting parent is forgotten", engine.refs["root"].id)
        engine.tick()
        assert engine.state("root") == "Running"
        assert [finding.step_id for finding in engine.app.sweep()] == [engine.refs["root"].id]
        assert engine.app.check_invariants() == []
    engine.settle()
    assert engine.state("root") == "Completed"


def test_a_parent_behind_an_outdated_block_entry_says_who_repairs_it(engine: Engine) -> None:
    engine.plant("root(child > later)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        row = engine.sql("SELECT * FROM steps_unconcluded WHERE step_id = :id", id=engine.refs["child"].id)[0]
        run_level(engine, runner, "child")
        engine.tick()
        engine.change("DELETE FROM steps_agenda WHERE step_id = :id", id=engine.refs["later"].id)
        engine.change("UPDATE steps SET state = 'Pending' WHERE id = :id", id=engine.refs["later"].id)
        engine.change("DELETE FROM steps_agenda WHERE step_id = :id", id=engine.refs["later"].id)
        columns = ", ".join(f'"{name}"' for name in row)
        engine.change(f"INSERT INTO steps_unconcluded ({columns}) VALUES (:{', :'.join(row)})", **row)
        found = root(engine, "later")
        assert (found.condition, found.advice) == ("bookkeeping", ("stepwell doctor --sweep",))
        assert "every step before index 2 has concluded" in found.message
        assert root(engine, "root") == found
        engine.app.sweep()
        engine.app.sweep()
    engine.settle()
    assert engine.state("root") == "Completed"


def test_a_ready_step_that_is_not_on_the_agenda_says_who_repairs_it(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker():
        engine.change("DELETE FROM steps_agenda")
        assert conditions(engine, "step") == ["bookkeeping"]
        assert explain(engine, "step").eligible
        engine.app.sweep()
        engine.tick()
        assert engine.state("step") == "Dispatched"


# Pending --------------------------------------------------------------------------------------------------


def test_a_step_whose_last_run_did_not_complete_says_so(engine: Engine) -> None:
    engine.plant("step", group=GROUP, cooldown=60)
    with engine.worker() as runner:
        for number in (1, 2):
            (claim,) = engine.claim(runner, "step")
            runner._finisher.write(claim, Ending(verb="not_completed", in_=60, limit=20))
            (obstacle,) = explain(engine, "step").obstacles
            times = "" if number == 1 else " (2 runs in a row)"
            assert obstacle.message.startswith(
                f"its last run did not complete{times}, and its next run is delayed until"
            )
            assert obstacle.changes_at == engine["step"].dispatch_after
            engine.clock.advance(60)
            runner.worker.heartbeat()
            assert explain(engine, "step").summary.startswith(f"ready (its last run did not complete{times})")


def test_a_step_that_waits_for_any_of_its_dependencies_names_only_those_that_can_still_conclude(engine: Engine) -> None:
    engine.plant("bad:fail, busy, held", group=GROUP, workflow=WORKFLOW)
    refs = [engine.refs[label] for label in ("bad", "busy", "held")]
    engine.add("join", depends_on=refs, trigger_rule="any_concluded", workflow=WORKFLOW)
    with engine.worker() as runner:
        bad, busy, held = engine.claim(runner, "bad", "busy", "held")
        run(runner, bad)
        engine.app.skip(engine.refs["held"], who="tester")
        (obstacle,) = explain(engine, "join").obstacles
        assert obstacle.steps == (busy.step_id, held.step_id)
        assert "bad" not in obstacle.message
        runner._finisher.release_lease(held)
        (obstacle,) = explain(engine, "join").obstacles  # a skipped one counts once all have ended
        assert obstacle.steps == (busy.step_id,)
        run(runner, busy)
        assert explain(engine, "join").obstacles == []


def test_a_step_with_a_missing_parent_says_so_before_its_first_tick(lawless_app: Stepwell, clock: ManualClock) -> None:
    engine = Engine(lawless_app, clock)
    gone = lawless_app.enqueue("behave").id
    insert_sql(lawless_app, action="behave", parent_step_id=gone)
    with plain_connection(lawless_app) as connection:
        if lawless_app.database.dialect == "sqlite":
            connection.execute("PRAGMA foreign_keys = OFF")
        else:
            connection.execute("ALTER TABLE steps DROP CONSTRAINT steps_parent_step_id_fkey")
        for table, column in (("steps_agenda", "step_id"), ("steps", "id")):
            connection.execute(f"DELETE FROM {table} WHERE {column} = {gone}")
        connection.commit()
    with engine.worker():
        (step,) = lawless_app.steps()
        messages = {obstacle.condition: obstacle.message for obstacle in lawless_app.explain(step).obstacles}
        assert messages.keys() == {"adoption", "parent"}
        assert messages["parent"] == f"its parent, step {gone}, does not exist: the next tick makes this step Failed"
        engine.tick()
        assert lawless_app.step(step).state == "Failed"
        assert f" {gone}" in lawless_app.explain(step).summary


# Ended ----------------------------------------------------------------------------------------------------


def test_a_child_of_a_step_that_cannot_run_advises_what_the_engine_accepts(engine: Engine) -> None:
    engine.plant("bad:fail > root(mid(child))", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "bad")
        engine.tick()
        assert engine.states("root", "mid", "child") == dict.fromkeys(("root", "mid", "child"), "NotRunnable")
        explanation, bad = explain(engine, "child"), engine.refs["bad"].id
        assert explanation.obstacles[0].steps == (engine.refs["mid"].id,)
        assert [step.name for step in explanation.behind] == ["mid", "root", "bad"]
        assert root(engine, "child").advice == (f"stepwell retry {bad}", f"stepwell skip {bad}")
        engine.app.skip(bad, who="tester")
        assert engine.states("root", "mid", "child") == dict.fromkeys(("root", "mid", "child"), "Pending")


def test_a_step_below_an_ancestor_that_ended_by_itself_advises_to_retry_that_one(engine: Engine) -> None:
    engine.plant("root(mid(bad:fail > behind))", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        run_level(engine, runner, "mid")
        run_level(engine, runner, "bad")
        engine.app.cancel(engine.refs["root"], who="tester")
        engine.tick()
        for label in ("mid", "bad"):
            assert root(engine, label).steps == (engine.refs["root"].id,), label
        assert root(engine, "bad").advice[0] == f"stepwell retry {engine.refs['root'].id}"
        engine.app.retry(engine.refs["root"], who="tester")


def test_a_parent_failed_by_its_children_names_those_to_retry(engine: Engine) -> None:
    engine.plant("root(good, bad:fail, off), join<root", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        engine.app.cancel(engine.refs["off"], who="tester")
        run_level(engine, runner, "good", "bad")
        engine.tick()
        assert engine.states("root", "join") == {"root": "Failed", "join": "NotRunnable"}
        roots = {found.steps: found.advice for found in explain(engine, "join").roots}
        assert roots == {
            (engine.refs[label].id,): tuple(f"stepwell {verb} {engine.refs[label].id}" for verb in ("retry", "skip"))
            for label in ("bad", "off")
        }
        for label in ("bad", "off"):
            engine.app.skip(engine.refs[label], who="tester")
    engine.settle()
    assert engine.state("join") == "Completed"


@pytest.mark.parametrize("line", ["held > behind", "held, behind<held", "root(held), behind<root"])
def test_a_cancelled_step_whose_process_holds_the_lease_says_so_and_so_does_what_waits(
    engine: Engine, line: str
) -> None:
    engine.plant(line, group=GROUP)
    with engine.worker() as runner:
        if "root" in engine.refs:
            run_level(engine, runner, "root")
        (held,) = engine.claim(runner, "held")
        engine.app.cancel(engine.refs["held"], who="tester")
        engine.tick()
        found, retry = explain(engine, "held").roots
        assert (found.condition, found.advice, found.is_later) == ("lease", (), False)
        assert f"its process still holds the lease (worker {runner.worker.id})" in found.message
        assert (retry.advice[0], retry.is_later) == (f"stepwell retry {held.step_id}", True)
        assert f"; after that: {retry.message}" in explain(engine, "held").summary
        assert explain(engine, "behind").roots == [found, retry]
        engine.clock.advance(LEASE_SECONDS)
        assert "the reaper releases the lease" in explain(engine, "held").summary
        runner._finisher.release_lease(held)
        runner.worker.heartbeat()
        assert root(engine, "held").advice[0] == f"stepwell retry {held.step_id}"


def test_a_retry_that_a_held_lease_below_would_refuse_is_advised_only_for_afterwards(engine: Engine) -> None:
    engine.plant("root(mid(held)), behind<root", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        run_level(engine, runner, "mid")
        (held,) = engine.claim(runner, "held")
        engine.app.cancel(engine.refs["root"], who="tester")
        engine.tick()
        assert engine.states("mid", "held", "behind") == {
            "mid": "Cancelled", "held": "Cancelled", "behind": "NotRunnable",
        }  # fmt: skip
        assert [(found.condition, found.advice, found.is_later) for found in explain(engine, "root").roots] == [
            ("lease", (), False),
            ("ended", (f"stepwell retry {engine.refs['root'].id}",), True),
        ]
        runner._finisher.release_lease(held)
        assert root(engine, "behind").advice[0] == f"stepwell retry {engine.refs['root'].id}"
        engine.app.retry(engine.refs["root"], who="tester")


def test_a_completed_step_does_not_tell_the_error_of_an_earlier_attempt(engine: Engine) -> None:
    engine.plant("step:raise/ok, twice:raise/fail", group=GROUP)
    engine.settle()
    assert engine["step"].error_message
    assert (explain(engine, "step").summary, explain(engine, "step").roots) == ("ended Completed", [])
    assert re.fullmatch(r"ended Failed \(error\): Permanent: .*", explain(engine, "twice").summary)
