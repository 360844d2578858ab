"""What goes with a transition is defined once per database: a change in that one place shows on every path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stepwell import State, Stepwell
from stepwell.run.ending import Ending
from stepwell.run.inline import InlineRunner
from stepwell.store import Transaction, definitions, effects, migrate
from stepwell.store.engine import counters
from stepwell.store.sqlite.transaction import prepared
from stepwell.store.statement import sql_of
from stepwell.testing import ManualClock
from tests.conformance.store.test_verbs import VERBS
from tests.conformance.support.engine import Engine, plain_connection, returned


def _forget_what_was_read() -> None:
    effects.effects.cache_clear()
    definitions.definitions.cache_clear()
    sql_of.cache_clear()
    for statement, _ in VERBS.values():
        statement.prepared.clear()


@pytest.fixture
def signed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The one definition of the effects of each database, changed so that every history row is signed `changed`."""
    changed = tmp_path / "effects.sql"
    text = effects.EFFECTS_FILE.read_text(encoding="utf-8")
    assert text.count("c.actor, c.updated_at") == 1
    changed.write_text(text.replace("c.actor, c.updated_at", "'changed', c.updated_at"), encoding="utf-8")
    _forget_what_was_read()
    monkeypatch.setattr(effects, "EFFECTS_FILE", changed)
    original = definitions.definitions

    def signing(dialect: str) -> str:
        script = original(dialect)
        if dialect == "postgres":
            body = script[script.index("FUNCTION steps_changed()") :]
            script = script.replace(
                body, body.replace("actor, updated_at, attempts", "'changed', updated_at, attempts")
            )
        return script

    monkeypatch.setattr(migrate, "definitions", signing)
    yield
    monkeypatch.undo()
    _forget_what_was_read()


def test_a_change_of_an_effect_shows_on_every_path(signed: None, empty_database_url: str, clock: ManualClock) -> None:
    with Stepwell(empty_database_url, clock=clock) as app:
        engine = Engine(app, clock)
        engine.plant("batched, alone")
        with engine.worker() as runner:
            batched, alone = engine.claim(runner, "batched", "alone")  # a tick, then a batch
            runner._finisher.write_all([(batched, Ending(verb="finish", response="1"))])  # a batch
            returned(runner._finisher, alone, None)  # one row
        engine.plant("cancelled, sql, root(child:fail, other)")
        app.cancel(engine.refs["cancelled"], who="ann")  # an operator
        with plain_connection(app) as connection:  # plain SQL
            connection.execute(f"UPDATE steps SET state = 'Cancelled' WHERE id = {engine.refs['sql'].id}")
            connection.commit()
        engine.settle()  # cascades, and claims without a tick
        moved = [change for label in engine.refs for change in engine.history(label) if change.from_state is not None]
        assert {change.actor for change in moved} == {"changed"}
        assert {change.to_state for change in moved} >= {
            State.DISPATCHED, State.RUNNING, State.COMPLETED, State.CANCELLED, State.FAILED,
        }  # fmt: skip


def test_every_effect_says_which_moves_it_is_about_and_a_batch_names_only_those() -> None:
    moves = {move for effect in effects.effects() for move in effect.moves}
    assert moves == {
        "begins", "waits", "concludes", "fails", "returns", "dispatches", "releases", "leaves_trouble", "alone",
    }  # fmt: skip
    with pytest.raises(ValueError, match="flies"):
        effects.of_batch(["flies"])


def test_the_trigger_runs_every_effect_and_a_batch_those_of_its_moves() -> None:
    trigger = definitions.definitions("sqlite")
    for effect in effects.effects():
        assert effect.for_row() in trigger.replace("\n    ", "\n"), effect.name
    claim = prepared(VERBS["claims.claim"][0]).first
    assert [effect.for_batch() for effect in effects.effects() if "begins" in effect.moves] == list(claim[1:])


def _counted(engine: Engine) -> tuple[set[str], list[tuple[object, ...]]]:
    """Every counter, and what happened within the last minutes."""
    rows = set(map(repr, engine.app.database.read(counters.counters)))
    return rows, [(each.created, each.started, each.returned, each.ended) for each in engine.app.figures.minutes()]


def _tally_again(engine: Engine) -> None:
    """Replace what the last batch tallied in Python by what the effect `tally` writes for the rows of that batch."""
    tally = next(effect for effect in effects.effects() if effect.name == "tally")

    def work(tx: Transaction) -> None:
        [newest] = tx.fetch(
            "SELECT batch, json_group_array(id) AS ids FROM steps WHERE batch IS NOT NULL AND state <> 'Pending' "
            "GROUP BY batch ORDER BY max(updated_at) DESC LIMIT 1",
            {},
        )
        tx.execute("DELETE FROM steps_tally", {})
        tx.execute(tally.for_batch(), newest)

    engine.app.database.transact(work)


@pytest.mark.one_database
@pytest.mark.parametrize("dispatched", [False, True], ids=["open", "dispatched"])
def test_what_a_batch_tallies_in_python_is_what_the_effect_writes(engine: Engine, dispatched: bool) -> None:
    app, clock = engine.app, engine.clock
    engine.add("again", "throttle/ok")
    app.run_until_idle()
    clock.advance(3_600)
    engine.tick()
    engine.plant("a, b, root(x, y), first > second")
    engine.add("urgent", queue="priority")
    if dispatched:
        engine.tick()
    queues = ("default", "priority")
    runner = InlineRunner(app.database, app.jobs, app._finisher, queues, waits_for_ticks=False)
    with closing(runner):
        app.fold()
        clock.advance(1)
        claims = runner.claim(100)
        assert len(claims) == 6
        in_python = _counted(engine)
        _tally_again(engine)
        assert _counted(engine) == in_python

        app.fold()
        clock.advance(1)
        app._finisher.write_all([(claim, Ending(verb="finish", response="1", duration=0.5)) for claim in claims])
        assert engine.state("root") == "Running"
        in_python = _counted(engine)
        _tally_again(engine)
        assert _counted(engine) == in_python
