"""The counters say what a count over all steps says: at any moment, folded or not, whoever changed the steps.

The invariants are checked at the end of every conformance test and throughout the random walks, and compare the two
there, too.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from stepwell import NewStep, Stepwell
from stepwell.model.claimed import Claim
from stepwell.operate import fold as folding
from stepwell.operate import fold_part
from stepwell.operate.fold import fold
from stepwell.operate.fold_part import FOLD_SECONDS, FoldPart
from stepwell.run.ending import Ending
from stepwell.store import Transaction
from stepwell.store.engine import counters
from tests.conformance.support.engine import Engine, plain_connection


def agree(app: Stepwell) -> bool:
    return _sorted(app, counters.counters) == _sorted(app, counters.counted_rows)


def _sorted(app: Stepwell, verb: Any) -> list[str]:
    return sorted(map(repr, app.database.read(verb)))


def _rows(app: Stepwell, table: str) -> int:
    return int(app.database.read(lambda tx: tx.fetch(f"SELECT count(*) AS n FROM {table}", {}))[0]["n"])


def test_what_is_more_than_one_fold_takes_is_folded_at_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two seconds between all folds, a busy table of changes would grow for ever, and what reads it slow down."""
    monkeypatch.setattr(fold_part, "FOLD_ROWS", 4)
    app = engine.app
    part = FoldPart(app.database)
    part.open()
    for number in range(10):
        app.enqueue("behave", label=f"step {number}")
    pauses = [part.round(())]
    while _rows(app, "steps_tally"):
        pauses.append(part.round(()))
        assert agree(app)
    assert len(pauses) > 2
    assert set(pauses[:-1]) == {0.0}
    assert part.round(()) == FOLD_SECONDS


LIVES = (
    "a:fail, b:retry/ok, c:throttle/ok, d:skip, e:stop, f:raise, root(x:ok, y:fail, z, !h), first > second:fail > third"
)


@pytest.mark.parametrize("often", [True, False], ids=["folded-often", "folded-at-the-end"])
def test_the_counters_are_the_rows_added_up(engine: Engine, often: bool) -> None:
    app = engine.app
    engine.plant(LIVES)
    assert agree(app)
    for _ in range(6):
        engine.tick()
        with engine.worker() as runner:
            for claim in runner.claim(2):
                assert agree(app)
                runner._run(claim)
        if often:
            app.fold()
        assert agree(app)
    engine.settle()
    assert agree(app)
    app.fold()
    assert _rows(app, "steps_tally") == 0
    assert agree(app)
    for label in ("a", "y"):
        app.retry(engine.refs[label], who="ann")
    app.cancel(engine.refs["a"], who="ann")
    assert agree(app)
    engine.settle()
    assert agree(app)


@pytest.mark.parametrize("known", [True, False], ids=["as-claimed", "the-answer-to-the-claim-was-lost"])
def test_a_batch_of_endings_is_counted_once(engine: Engine, known: bool) -> None:
    engine.plant("one, two, root(x), three")
    with engine.worker() as runner:
        claims = engine.claim(runner, "one", "two", "root")
        if not known:
            claims[0] = Claim(claims[0].step_id, claims[0].token, claims[0].worker)
        endings = [(claim, Ending(verb="finish", response="1", duration=0.1)) for claim in claims]
        for _ in range(2):  # the second time, they are stale
            runner._finisher.write_all(endings)
            assert agree(engine.app)
    assert engine.app.figures.totals().states["Completed"] == 2


def test_a_throttled_step_is_counted_as_such_while_it_is_pending(engine: Engine) -> None:
    engine.plant("step:throttle/throttle/ok")
    with engine.worker() as runner:
        [claim] = engine.claim(runner, "step")
        runner._run(claim)
        assert engine.app.figures.totals().throttled == 1
        engine.app.fold()
        assert engine.app.figures.totals().throttled == 1
        engine.app.reset_attempts(engine.refs["step"], who="ann")
        assert engine.app.figures.totals().throttled == 0
        assert agree(engine.app)
        [claim] = engine.claim(runner, "step")
        assert engine.app.figures.totals().throttled == 0
        runner._run(claim)
    assert engine.app.figures.totals().throttled == 1
    engine.settle()
    assert engine.app.figures.totals().throttled == 0


def test_what_plain_sql_writes_and_deletes_is_counted(engine: Engine) -> None:
    app = engine.app
    with plain_connection(app) as connection:
        for _ in range(3):
            connection.execute("INSERT INTO steps (action) VALUES ('behave')")
        connection.commit()
    assert app.figures.totals().states["Pending"] == 3
    assert agree(app)
    app.fold()
    app.dispatch_once()  # adopted: queue and group are known now
    assert agree(app)
    with plain_connection(app) as connection:
        connection.execute("UPDATE steps SET state = 'Cancelled' WHERE id = (SELECT min(id) FROM steps)")
        connection.commit()
    assert agree(app)
    with plain_connection(app) as connection:
        connection.execute("DELETE FROM steps_agenda")
        connection.execute("DELETE FROM step_transitions")
        connection.execute("DELETE FROM steps_unsettled")
        connection.execute("DELETE FROM steps")
        connection.commit()
    assert app.figures.totals().steps == 0
    assert agree(app)
    app.fold()
    folding.forget_minutes(app.database)
    assert _rows(app, "steps_totals") == 0


class _Killed(Exception):
    pass


@pytest.mark.parametrize("dies_in", ["take_tally", "add_to_minutes"])
def test_a_fold_that_dies_between_its_statements_loses_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, dies_in: str
) -> None:
    engine.plant("a, b, c:fail")
    engine.settle()
    app, verb = engine.app, getattr(counters, dies_in)
    before, waiting = _sorted(app, counters.counters), _rows(app, "steps_tally")

    def dies(tx: Transaction, **parameters: Any) -> None:
        verb(tx, **parameters)
        raise _Killed

    with monkeypatch.context() as patch:
        patch.setattr(counters, dies_in, dies)
        with pytest.raises(_Killed):
            fold(app.database)
    assert (_sorted(app, counters.counters), _rows(app, "steps_tally")) == (before, waiting)
    app.fold()
    assert _sorted(app, counters.counters) == before
    assert sum(minute.ended["Completed"] for minute in app.figures.minutes()) == 2


def test_a_fold_takes_no_more_than_it_may_and_goes_on(engine: Engine) -> None:
    for _ in range(7):
        engine.app.enqueue("behave", {"outcome": "ok"})
    before = _sorted(engine.app, counters.counters)
    rounds = 0
    while fold(engine.app.database, 2):
        rounds += 1
        assert _sorted(engine.app, counters.counters) == before
    assert rounds == 4


def test_two_folds_at_once_add_each_change_once(postgres_url: str) -> None:
    with Stepwell(postgres_url) as app:
        for _ in range(6):
            app.enqueue("nobody")
        taken, may_commit = threading.Event(), threading.Event()

        def slow(tx: Transaction) -> None:
            counters.take_tally(tx, through=3)
            taken.set()
            assert may_commit.wait(30)

        threads = [threading.Thread(target=partial(app.database.transact, slow))]
        threads[0].start()
        assert taken.wait(30)
        threads += [threading.Thread(target=partial(fold, app.database)) for _ in range(3)]
        for thread in threads[1:]:
            thread.start()
        assert agree(app)  # while one fold has not committed, and the others wait for it or are done
        may_commit.set()
        for thread in threads:
            thread.join()
        assert _rows(app, "steps_tally") == 0
        assert agree(app)
        assert app.figures.totals().states["Pending"] == 6


def test_a_wrong_counter_is_found_and_can_be_made_right(lawless_app: Stepwell) -> None:
    app = lawless_app
    app.enqueue_many([NewStep(action="nobody") for _ in range(3)])
    app.fold()
    app.database.transact(lambda tx: tx.execute("UPDATE steps_totals SET number = number + 1", {}))
    found = [violation.finding for violation in app.check_invariants()]
    assert any("counted as Pending (action nobody" in finding for finding in found)
    app.recount()
    assert app.check_invariants() == []
