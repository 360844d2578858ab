"""An operator and the engine act on the same step or workflow at once: whoever is first wins, and nothing is lost.

On PostgreSQL the first transaction is held open, with all that it has written, until the second one waits for it or has
ended. On SQLite, which lets one writer in at a time, the second follows the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell import Stepwell
from stepwell.model.claimed import Claim
from stepwell.model.errors import ActionRefused
from stepwell.run.finish import Finisher
from stepwell.run.inline import InlineRunner
from stepwell.store import Transaction
from stepwell.testing import behave
from tests.conformance.support.asides import Aside
from tests.conformance.support.engine import Engine, returned
from tests.conformance.support.ticks import GROUP, make_succeed, run, run_level, tick
from tests.conformance.workflow.flows import job, row_of, start, states_of, steps_of

pytestmark = pytest.mark.parametrize("operator_is_first", [True, False], ids=["operator-first", "engine-first"])
Side = Callable[[Stepwell], Any]


class Race:
    """Two that act at once, and what each got: a result, or the reason of a refusal."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def run(self, operator: Side, other: Side, operator_is_first: bool, place: int | None = None) -> tuple[Any, Any]:
        """The first one is held at the end of its first transaction that changes a step, or of number `place`."""
        results: dict[str, Any] = {}

        def named(name: str, side: Side) -> Side:
            def act(app: Stepwell) -> None:
                try:
                    results[name] = side(app)
                except ActionRefused as refused:
                    results[name] = str(refused)

            return act

        sides = [named("operator", operator), named("other", other)]
        first, second = sides if operator_is_first else reversed(sides)
        if self._engine.app.database.dialect == "postgres":
            self._overlap(first, second, place)
        else:
            first(self._engine.app)
            second(self._engine.app)
        return results["operator"], results["other"]

    def _overlap(self, first: Side, second: Side, place: int | None) -> None:
        database, asides, seen = self._engine.app.database, list[Aside](), []
        transact = database.transact
        before = len(database.read(lambda tx: tx.fetch("SELECT id FROM step_transitions", {})))

        def held(work: Callable[[Transaction], Any], **options: Any) -> Any:
            def work_and_hold(tx: Transaction) -> Any:
                result = work(tx)
                tx.finalize()
                seen.append(1)
                changed = len(tx.fetch("SELECT id FROM step_transitions", {})) > before
                if not asides and (changed if place is None else len(seen) == place):
                    asides.append(Aside(database.url, self._engine.clock, second))
                    asides[0].waits_or_ends()
                return result

            return transact(work_and_hold if options.get("write", True) else work, **options)

        database.transact = held  # type: ignore[method-assign]
        try:
            first(self._engine.app)
        finally:
            database.transact = transact  # type: ignore[method-assign]
        for aside in asides or [Aside(database.url, self._engine.clock, second)]:
            aside.ends()


@pytest.fixture
def race(engine: Engine) -> Race:
    return Race(engine)


def ends(claim: Claim) -> Side:
    return lambda app: returned(Finisher(app.database, app._creator, app.events), claim, "result")


def claims(app: Stepwell) -> list[int]:
    if "behave" not in app.jobs:
        behave(app)
    runner = InlineRunner(app.database, app.jobs, app._finisher, ["default"], 8, None, waits_for_ticks=False)
    return [claim.step_id for claim in runner.claim(10)]


def test_cancel_and_completion(engine: Engine, race: Race, operator_is_first: bool) -> None:
    engine.plant("a")
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "a")
        cancelled, ended = race.run(lambda app: app.cancel(engine.refs["a"], who="ann"), ends(claim), operator_is_first)
    if operator_is_first:
        assert (engine.state("a"), cancelled, ended) == ("Cancelled", None, None)
        assert engine["a"].response is None
    else:
        assert (engine.state("a"), str(ended)) == ("Completed", "Completed")
        assert "is Completed and cannot be cancelled" in cancelled


def test_retry_and_cancel_of_the_same_step(engine: Engine, race: Race, operator_is_first: bool) -> None:
    engine.plant("a:fail")
    engine.settle()
    retried, cancelled = race.run(
        lambda app: app.retry(engine.refs["a"], who="ann").revived,
        lambda app: app.cancel(engine.refs["a"], who="ben"),
        operator_is_first,
    )
    assert retried == [engine.refs["a"].id]
    if operator_is_first:
        assert (engine.state("a"), cancelled) == ("Cancelled", None)
    else:
        assert engine.state("a") == "Pending"
        assert "is Failed and cannot be cancelled" in cancelled


def test_retry_of_a_child_and_cancel_of_its_parent(engine: Engine, race: Race, operator_is_first: bool) -> None:
    engine.plant("root(bad:fail, slow)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        bad, slow = engine.claim(runner, "bad", "slow")
        run(runner, bad)
        retried, _ = race.run(
            lambda app: app.retry(engine.refs["bad"], who="ann").revived,
            lambda app: app.cancel(engine.refs["root"], who="ben"),
            operator_is_first,
        )
        engine.tick()
        run(runner, slow)
        engine.app._finisher.release_lease(slow)
    engine.settle()
    if operator_is_first:
        assert engine.states() == {"root": "Cancelled", "bad": "Cancelled", "slow": "Cancelled"}
    else:
        assert "its ancestor" in retried
        assert engine.states() == {"root": "Cancelled", "bad": "Failed", "slow": "Cancelled"}


def test_skip_and_claim(engine: Engine, race: Race, operator_is_first: bool) -> None:
    engine.plant("a")
    skipped, claimed = race.run(lambda app: app.skip(engine.refs["a"], who="ann"), claims, operator_is_first)
    assert skipped is None
    assert engine.state("a") == "Skipped"
    if operator_is_first:
        assert (claimed, engine["a"].lease_worker) == ([], None)
    else:  # its process is running: the lease stands until it has ended
        assert claimed == [engine.refs["a"].id]
        assert engine["a"].lease_worker is not None


def test_complete_and_claim(engine: Engine, race: Race, operator_is_first: bool) -> None:
    engine.plant("a")
    completed, claimed = race.run(
        lambda app: app.complete(engine.refs["a"], who="ann", response=1),
        claims,
        operator_is_first,
    )
    if operator_is_first:
        assert (engine.state("a"), engine["a"].response, completed, claimed) == ("Completed", 1, None, [])
    else:
        assert (engine.state("a"), claimed) == ("Running", [engine.refs["a"].id])
        assert "is Running: cancel it or wait until it ends" in completed


def test_reset_attempts_and_claim(engine: Engine, race: Race, operator_is_first: bool) -> None:
    engine.plant("a:raise/raise/ok")
    engine.app.run_until_idle()
    engine.clock.advance(3_600)
    engine.tick()
    reset, claimed = race.run(
        lambda app: app.reset_attempts(engine.refs["a"], who="ann"),
        claims,
        operator_is_first,
        1 if operator_is_first else None,
    )
    if operator_is_first:
        assert reset is None
        assert engine["a"].attempts == len(claimed)
    else:
        assert engine["a"].attempts == 2
        assert "it is Running; wait until it ends" in reset


def test_cancel_of_a_workflow_and_the_end_of_its_last_step(engine: Engine, race: Race, operator_is_first: bool) -> None:
    flow = start(engine.app, job("a"), job("b"))
    engine.refs |= {name: step.ref for name, step in steps_of(engine.app, flow).items()}
    with engine.worker() as runner:
        first, last = engine.claim(runner, "a", "b")
        run(runner, first)
        cancelled, _ = race.run(
            lambda app: app.workflow_engine.actions.cancel(flow, "ann"), ends(last), operator_is_first
        )
        engine.app._finisher.release_lease(last)
    if operator_is_first:
        assert cancelled == [engine.refs["b"].id]
        assert (row_of(engine.app, flow).state, engine.state("b")) == ("cancelled", "Cancelled")
    else:
        assert (row_of(engine.app, flow).state, engine.state("b")) == ("complete", "Completed")
        assert "has settled (complete)" in cancelled


@pytest.mark.parametrize("place", [1, 2, 3, 4, 5])
def test_retry_of_a_workflow_and_a_running_tick(
    engine: Engine, race: Race, operator_is_first: bool, place: int
) -> None:
    flow = start(engine.app, job("a", outcome="fail"), job("b", after=("a",)), job("c", after=("b",)))
    engine.refs |= {name: step.ref for name, step in steps_of(engine.app, flow).items()}
    with engine.worker() as runner:
        run(runner, *engine.claim(runner, "a"))
    make_succeed(engine, "a")
    group = str(engine["a"].group)
    race.run(
        lambda app: app.workflow_engine.actions.retry(flow, "ann"),
        lambda app: app.dispatch_once(group),
        operator_is_first,
        1 if operator_is_first else place,
    )
    engine.settle()
    assert set(states_of(engine.app, flow).values()) == {"Completed"}
    assert row_of(engine.app, flow).state == "complete"


def test_a_bulk_action_and_the_end_of_one_of_its_steps(engine: Engine, race: Race, operator_is_first: bool) -> None:
    engine.plant("a, b")
    with engine.worker() as runner:
        (claim, _) = engine.claim(runner, "a", "b")
        preview = engine.app.operations.preview("cancel", state="Running")
        operation, _ = race.run(
            lambda app: app.operations.open_preview(preview.id).execute(who="ann").id,
            ends(claim),
            operator_is_first,
        )
    found = {item.step_id: item.outcome for item in engine.app.operations.get(operation).items()}
    expected = ("done", "Cancelled") if operator_is_first else ("changed", "Completed")
    assert (found[claim.step_id], engine.state("a")) == expected
    assert engine.state("b") == "Cancelled"


def test_two_that_execute_one_operation(engine: Engine, race: Race, operator_is_first: bool) -> None:
    engine.plant(", ".join(f"s{number}:fail" for number in range(60)))
    engine.settle()
    operation = engine.app.operations.preview("retry", state="Failed").execute(who="ann", wait=False)

    def execute(app: Stepwell) -> None:
        app.operations.get(operation.id).run()

    race.run(execute, execute, operator_is_first)
    assert operation.progress().done == 60
    by_ann = [len([t for t in engine.history(label) if t.actor == "operator:ann"]) for label in engine.refs]
    assert by_ann == [1] * 60


def test_a_tick_waits_for_a_bulk_retry_and_undoes_nothing(engine: Engine, race: Race, operator_is_first: bool) -> None:
    engine.plant("parent:fail(child)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "parent")
    make_succeed(engine, "parent")
    preview = engine.app.operations.preview("retry", id=[engine.refs["parent"].id])
    race.run(
        lambda app: app.operations.open_preview(preview.id).execute(who="ann").id,
        tick,
        operator_is_first,
        2 if operator_is_first else 3,
    )
    engine.settle()
    assert engine.states() == {"parent": "Completed", "child": "Completed"}
