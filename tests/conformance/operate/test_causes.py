"""Failures by cause: the numbers are those of the list of trouble, at any moment, folded or not, whoever changes it."""

from __future__ import annotations

import threading
from collections import Counter as Sums
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from stepwell import NewStep, Stepwell
from stepwell.operate import fold as folding
from stepwell.operate.causes import fold_causes
from stepwell.operate.fold import fold
from stepwell.store import Transaction
from stepwell.store.engine import trouble
from stepwell.store.migrate import known_migrations
from stepwell.testing import behave
from tests.conformance.support.engine import Engine, plain_connection

LIVES = (
    "a:fail, b:fail, c:stop, d:ok, root(x:fail > y > z), other(p:fail, q > r, !h), first:fail > second > third, "
    "last(one(two:fail > three))"
)


def listed(app: Stepwell) -> list[tuple[str, int, int]]:
    """By cause, how many failed and how many are behind them: every row of the list, one by one."""
    rows = app.database.read(lambda tx: tx.fetch("SELECT * FROM steps_trouble", {}))
    alike = Sums(row["fingerprint"] for row in rows if row["cause"] is None and row["state"] in ("Failed", "Stopped"))
    behind = Sums(row["cause_fingerprint"] for row in rows if row["cause"])
    return sorted((cause, number, behind[cause]) for cause, number in alike.items())


def told(app: Stepwell) -> list[tuple[str, int, int]]:
    causes = app.figures.causes()
    assert app.figures.number_of_causes(1_000) == len(causes)
    assert app.figures.number_of_causes(1) == min(1, len(causes))
    for cause in causes:
        assert app.figures.cause(cause.fingerprint) == cause
    return sorted((cause.fingerprint, cause.steps, cause.behind) for cause in causes)


def _rows(app: Stepwell, table: str) -> int:
    return int(app.database.read(lambda tx: tx.fetch(f"SELECT count(*) AS n FROM {table}", {}))[0]["n"])


@pytest.mark.parametrize("often", [True, False], ids=["folded-often", "folded-at-the-end"])
def test_the_causes_are_the_list_of_trouble_added_up(engine: Engine, often: bool) -> None:
    app = engine.app
    engine.plant(LIVES)

    def look() -> None:
        assert told(app) == listed(app)
        if often:
            app.fold()
            assert told(app) == listed(app)

    for _ in range(6):
        engine.tick()
        with engine.worker() as runner:
            for claim in runner.claim(2):
                runner._run(claim)
                look()
    engine.settle()
    look()
    app.fold()
    assert sum(behind for *_, behind in told(app)) > 5
    assert _rows(app, "steps_causes_tally") == 0
    for act in (app.retry, app.skip, app.complete):
        for label in ("a", "x", "p", "first", "two"):
            if engine.states(label)[label] in ("Failed", "Stopped", "Cancelled"):
                act(engine.refs[label], who="ann")
                look()
                engine.tick()
                look()
        engine.settle()
        look()
    app.fold()
    look()


def test_a_cause_says_what_failed_last(engine: Engine) -> None:
    app = engine.app
    engine.plant("one:fail, two:fail, three:fail")
    times = []
    with engine.worker() as runner:
        claims = dict(zip(("one", "two", "three"), engine.claim(runner, "one", "two", "three"), strict=True))
        for label in ("three", "one", "two"):
            engine.clock.advance(1)
            runner._run(claims[label])
            times.append(engine[label].updated_at)
    [cause] = app.figures.causes()
    assert (cause.first_at, cause.last_at) == (times[0], times[-1])
    assert (cause.newest_step, cause.error) == (engine["two"].id, engine["two"].error_message)
    assert app.figures.causes(since=times[0]) == [cause]
    [since] = app.figures.causes(since=times[1])
    assert (since.steps, since.first_at, since.last_at) == (2, times[1], times[2])
    assert app.figures.causes(since=times[2] + timedelta(seconds=1)) == []


def test_what_plain_sql_changes_and_deletes_is_counted(engine: Engine) -> None:
    app = engine.app
    engine.plant("a:fail, b:fail, root(x:fail > y)")
    engine.settle()
    app.fold()
    assert len(told(app)) > 0
    engine.change("UPDATE steps_trouble SET fingerprint = 'another' WHERE cause IS NULL AND state = 'Failed'")
    assert told(app) == listed(app)
    assert [fingerprint for fingerprint, *_ in told(app)] == ["another"]
    with plain_connection(app) as connection:
        connection.execute("DELETE FROM steps_agenda")
        connection.execute("DELETE FROM step_transitions")
        connection.execute("DELETE FROM steps_unconcluded")
        connection.execute("DELETE FROM steps")
        connection.commit()
    assert told(app) == listed(app) == []
    app.fold()
    folding.forget_minutes(app.database)
    assert _rows(app, "steps_causes") == 0


class _Killed(Exception):
    pass


@pytest.mark.parametrize("dies_in", ["take_causes", "add_to_causes"])
def test_a_fold_that_dies_between_its_statements_loses_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, dies_in: str
) -> None:
    app, verb = engine.app, getattr(trouble, dies_in)
    engine.plant("a:fail, b:fail, root(x:fail > y)")
    engine.settle()
    before = told(app), _rows(app, "steps_causes_tally")

    def dies(tx: Transaction, **parameters: Any) -> None:
        verb(tx, **parameters)
        raise _Killed

    with monkeypatch.context() as patch:
        patch.setattr(trouble, dies_in, dies)
        with pytest.raises(_Killed):
            fold(app.database)
    assert (told(app), _rows(app, "steps_causes_tally")) == before
    app.fold()
    assert told(app) == listed(app)


def test_two_folds_at_once_add_each_change_once(postgres_url: str) -> None:
    with Stepwell(postgres_url) as app:
        behave(app)
        app.enqueue_many([NewStep(action="behave", arguments={"outcome": "fail"}) for _ in range(6)])
        app.run_until_idle()
        taken, may_commit = threading.Event(), threading.Event()

        def slow(tx: Transaction) -> None:
            fold_causes(tx, 3)
            taken.set()
            assert may_commit.wait(30)

        threads = [threading.Thread(target=partial(app.database.transact, slow))]
        threads[0].start()
        assert taken.wait(30)
        threads += [threading.Thread(target=partial(fold, app.database)) for _ in range(3)]
        for thread in threads[1:]:
            thread.start()
        assert told(app) == listed(app)  # one has not committed; the others wait for it
        may_commit.set()
        for thread in threads:
            thread.join()
        assert told(app) == listed(app)
        assert [number for _, number, _ in told(app)] == [6]


def test_failures_at_the_same_time_do_not_wait_for_each_other(postgres_url: str) -> None:
    """Two transactions fail steps alike: a row that both updated would make the second one wait for the first."""
    with Stepwell(postgres_url) as app:
        for _ in range(2):
            app.enqueue("nobody")
        first, second = [row.id for row in app.lists.steps().rows]
        failing = "UPDATE steps SET state = 'Cancelled', actor = 'operator:ann' WHERE id = %s"
        again = "UPDATE steps SET state = 'Pending', actor = 'operator:ann' WHERE id = %s"
        with plain_connection(app) as one, plain_connection(app) as other:
            for connection, step in ((one, first), (other, second)):
                connection.execute("SET lock_timeout = '5s'")
                connection.execute(failing, [step])
                connection.execute(
                    "UPDATE steps_trouble SET state = 'Failed', fingerprint = 'alike' WHERE step_id = %s", [step]
                )
            other.commit()
            one.commit()
            assert told(app) == [("alike", 2, 0)]
            for connection, step in ((one, first), (other, second)):
                connection.execute(again, [step])
            other.commit()
            one.commit()
        assert told(app) == []


def test_a_wrong_number_is_found_and_can_be_made_right(lawless_app: Stepwell) -> None:
    app = lawless_app
    behave(app)
    app.enqueue_many([NewStep(action="behave", arguments={"outcome": "fail"}) for _ in range(3)])
    app.run_until_idle()
    app.fold()
    right = told(app)
    app.database.transact(lambda tx: tx.execute("UPDATE steps_causes SET number = number + 1", {}))
    found = [violation.finding for violation in app.check_invariants()]
    assert any("4 failures counted" in finding and "there are 3" in finding for finding in found), found
    app.recount()
    assert app.check_invariants() == []
    assert told(app) == right


def test_the_migration_counts_the_failures_that_are_there(engine: Engine) -> None:
    app = engine.app
    engine.plant("a:fail, b:fail, root(x:fail > y > z)")
    engine.settle()
    app.fold()
    right = told(app)
    assert sum(behind for *_, behind in right) > 1
    [script] = [migration.script for migration in known_migrations(app.database.dialect) if migration.version == 11]
    [fill, count] = [
        text for text in script.split(";") if "UPDATE steps_trouble SET cause_f" in text or "INSERT" in text
    ]
    for statement in ("UPDATE steps_trouble SET cause_fingerprint = NULL", fill, "DELETE FROM steps_causes",
                      "DELETE FROM steps_causes_tally", count):  # fmt: skip
        engine.change(statement)
    assert told(app) == right
