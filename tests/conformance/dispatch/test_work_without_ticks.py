"""What needs no decision waits for no tick: new steps that can begin, and ends that decide nothing."""

from __future__ import annotations

import pytest

from stepwell.dispatch import lock
from stepwell.model.claimed import Claim
from stepwell.model.leases import LEASE_SECONDS
from stepwell.run.claim import Claimer
from stepwell.run.ending import Ending
from stepwell.run.inline import InlineRunner
from tests.conformance.support.engine import Engine

DONE = Ending(verb="finish", response="null")


def _open(engine: Engine) -> set[str]:
    rows = engine.sql("SELECT s.label FROM steps_agenda a JOIN steps s ON s.id = a.step_id WHERE a.status = 'open'")
    return {row["label"] for row in rows}


def _marked(engine: Engine) -> set[str]:
    rows = engine.sql("SELECT s.label FROM steps_marks m JOIN steps s ON s.id = m.step_id")
    return {row["label"] for row in rows}


def _claimed(engine: Engine, runner: InlineRunner) -> dict[str, Claim]:
    """What a worker that waits for no tick can take now, by label."""
    claimer = Claimer(engine.app.database, runner.worker)
    claims = engine.app.database.transact(lambda tx: claimer.claim(tx, 100))
    return {str(claim.step.label): claim for claim in claims}


def _finish(runner: InlineRunner, *claims: Claim) -> None:
    assert None not in runner._finisher.write_all([(claim, DONE) for claim in claims])


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("first > second > third", {"first"}),
        ("a, b > c", {"a", "b"}),
        ("a, b<a, c<a+b", {"a"}),
        ("parent(child > next)", {"parent"}),
        ("parent(child), behind<parent", {"parent"}),
    ],
)
def test_new_steps_that_can_begin_are_open_at_once_and_the_others_leave_no_marks(
    engine: Engine, line: str, first: set[str]
) -> None:
    engine.plant(line)
    assert _open(engine) == first
    assert _marked(engine) == set()
    assert engine.settle() == len(engine.refs)


def test_what_stands_behind_steps_that_were_there_before_is_looked_at(engine: Engine) -> None:
    engine.plant("failed:fail")
    engine.settle()
    engine.add("unsatisfiable", depends_on=[engine.refs["failed"]])
    assert _marked(engine) == {"unsatisfiable"}
    engine.tick()
    assert engine.state("unsatisfiable") == "NotRunnable"


def test_what_depends_on_a_new_step_and_on_a_failed_one_does_not_wait_for_the_new_one(engine: Engine) -> None:
    engine.plant("failed:fail")
    engine.settle()
    job = engine.app.jobs["behave"]
    new = job.options(workflow=engine["failed"].workflow_id, label="new").draft("ok")
    both = job.options(depends_on=[new, engine.refs["failed"]], label="both").draft("ok")
    engine.refs["new"], engine.refs["both"] = engine.app.enqueue_many([new, both])
    engine.tick()
    assert engine.states("new", "both") == {"new": "Pending", "both": "NotRunnable"}


def test_what_joins_a_block_with_a_failure_does_not_wait_for_the_new_step_that_it_names(engine: Engine) -> None:
    engine.plant("failed:fail > late")
    engine.settle()
    job, workflow = engine.app.jobs["behave"], engine["failed"].workflow_id
    new = job.options(workflow=workflow, label="new").draft("ok")
    joins = job.options(block=engine["failed"].block_uuid, index=3, depends_on=[new], label="joins").draft("ok")
    engine.refs["new"], engine.refs["joins"] = engine.app.enqueue_many([new, joins])
    engine.tick()
    assert engine.states("new", "joins") == {"new": "Pending", "joins": "NotRunnable"}


def test_the_children_of_a_dormant_handler_become_dormant_with_it(engine: Engine) -> None:
    engine.plant("p(x, !h(y))")
    engine.settle()
    assert engine.states("p", "h", "y") == {"p": "Completed", "h": "NotRunnable", "y": "NotRunnable"}


def test_a_step_in_the_middle_of_a_chain_costs_no_tick(engine: Engine) -> None:
    engine.plant("first > second > third")
    engine.plant("a, b<a, c<b")
    dispatcher = engine.app.dispatcher()
    with engine.worker() as runner:
        for labels in ({"first", "a"}, {"second", "b"}, {"third", "c"}):
            claims = _claimed(engine, runner)
            assert claims.keys() == labels
            _finish(runner, *claims.values())
            assert dispatcher.round(open_too=False) == []
            assert _marked(engine) == set()


def test_a_child_costs_a_tick_only_if_it_is_the_last(engine: Engine) -> None:
    engine.plant("parent(a, b, c)")
    dispatcher = engine.app.dispatcher()
    with engine.worker() as runner:
        _finish(runner, *_claimed(engine, runner).values())
        dispatcher.run_until_quiet()
        claims = _claimed(engine, runner)
        _finish(runner, claims["a"], claims["b"])
        assert dispatcher.round(open_too=False) == []
        assert _marked(engine) == set()
        _finish(runner, claims["c"])
        (report,) = dispatcher.round(open_too=False)
        assert report.changed
        assert engine.state("parent") == "Completed"


def test_children_that_end_together_still_decide_their_parent(engine: Engine) -> None:
    engine.plant("parent(a, b:fail)")
    dispatcher = engine.app.dispatcher()
    with engine.worker() as runner:
        _finish(runner, *_claimed(engine, runner).values())
        dispatcher.run_until_quiet()
        claims = _claimed(engine, runner)
        ends = [(claims["b"], Ending(verb="fail", reason="error", error="no")), (claims["a"], DONE)]
        runner._finisher.write_all(ends)
        dispatcher.run_until_quiet()
        assert engine.state("parent") == "Failed"


def test_a_step_that_was_not_opened_by_an_end_is_opened_by_a_tick(engine: Engine) -> None:
    engine.plant("first > second")
    engine.plant("a, b<a")
    dispatcher = engine.app.dispatcher()
    with engine.worker() as runner:
        _finish(runner, *_claimed(engine, runner).values())
        engine.change("DELETE FROM steps_agenda WHERE status = 'open'")  # as if nobody had looked
        assert sum(report.opened for report in dispatcher.round(open_too=False)) == 2


def test_more_than_a_few_that_come_next_are_left_to_the_tick(engine: Engine) -> None:
    engine.plant(f"first > {', '.join(f'n{number}' for number in range(30))} > last")
    dispatcher = engine.app.dispatcher()
    with engine.worker(slots=64) as runner:
        _finish(runner, *_claimed(engine, runner).values())
        assert len(dispatcher.round(open_too=False)) == 1
        assert _marked(engine) == set()


def test_a_dispatcher_of_some_groups_leaves_the_marks_of_others_alone(engine: Engine) -> None:
    engine.plant("first > second", group="beta")
    with engine.worker() as runner:
        _finish(runner, *_claimed(engine, runner).values())
        assert engine.app.dispatcher(["alpha"]).round(open_too=False) == []
        assert _marked(engine) == {"first"}


def test_an_unchecked_step_is_not_opened_by_the_end_of_another(engine: Engine) -> None:
    """A tick may be about to turn it away, by what it saw before that end: the mark has to stay for the next one."""
    engine.plant("c, d:fail > f")
    engine.plant("a, b<a")
    dispatcher = engine.app.dispatcher()
    with engine.worker() as runner:
        claims = _claimed(engine, runner)
        runner._finisher.write(claims["d"], Ending(verb="fail", reason="error", error="no"))
        dispatcher.run_until_quiet()
        engine.app.skip(engine.refs["d"], who="ann")
        engine.app.cancel(engine.refs["b"], who="ann")
        engine.app.retry(engine.refs["b"], who="ann")
        assert [row["status"] for row in engine.sql("SELECT status FROM steps_agenda ORDER BY status DESC")][:2] == [
            "unchecked"
        ] * 2
        _finish(runner, claims["c"], claims["a"])
        assert dispatcher._delete_idle_marks() == 0
        assert {"c", "a"} <= _marked(engine)
        dispatcher.run_until_quiet()
    assert engine.settle() == 2


# Steps that return to Pending ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [True, False])
def test_a_rescued_step_begins_again_without_a_tick_of_its_group(engine: Engine, held: bool) -> None:
    """The dispatcher that held the lock of the group may have died with the worker."""
    engine.plant("root(child), second")
    with engine.worker() as dead:
        assert set(_claimed(engine, dead)) == {"root", "second"}
        if held:
            for group in engine.app.groups():
                assert lock.acquire(engine.app.database, group.group, "a dead dispatcher", 3_600.0)
        engine.clock.advance(LEASE_SECONDS + 1)
        assert len(engine.app.reaper().round().rescued) == 2
        with engine.worker() as runner:
            assert set(_claimed(engine, runner)) == {"root", "second"}


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (Ending(verb="hand_back"), "open"),
        (Ending(verb="rescue", limit=3, error="killed"), "open"),
        (Ending(verb="retry_later", error="again"), "open"),
        (Ending(verb="retry_later", error="again", in_=60.0), "delayed"),
        (Ending(verb="throttle", in_=60.0), "delayed"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_step_that_returns_to_pending_is_put_on_the_agenda_with_its_ending(
    engine: Engine, ending: Ending, status: str, at_once: bool
) -> None:
    engine.plant("one, two")
    with engine.worker() as runner:
        claims = _claimed(engine, runner)
        if at_once:
            runner._finisher.write_all([(claim, ending) for claim in claims.values()])
        else:
            for claim in claims.values():
                runner._finisher.write(claim, ending)
        assert [row["status"] for row in engine.sql("SELECT status FROM steps_agenda")] == [status, status]
        engine.clock.advance(61)
        assert engine.settle() == 2


def test_a_step_that_returns_to_pending_behind_others_is_left_to_a_tick(engine: Engine) -> None:
    engine.plant("parent(child)")
    with engine.worker() as runner:
        _finish(runner, *_claimed(engine, runner).values())
        (claim,) = _claimed(engine, runner).values()
        engine.app.pause_workflow(engine.refs["child"], who="ann")
        runner._finisher.hand_back(claim)
        assert _open(engine) == set()
        engine.app.dispatcher().run_until_quiet()
        assert _claimed(engine, runner) == {}
    engine.app.resume_workflow(engine.refs["child"], who="ann")
    engine.settle()
    assert engine.states() == {"parent": "Completed", "child": "Completed"}
