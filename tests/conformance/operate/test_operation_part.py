"""The part that executes operations: a batch of each per round, at its pace, whatever happens to the others."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.model.errors import DatabaseUnavailable
from stepwell.operate.operations import Operation, executing
from stepwell.operate.operations.operation_part import IDLE_SECONDS, OperationPart
from stepwell.service.loop import Loop
from tests.conformance.support.engine import Engine
from tests.unit.service.parts import in_thread

AWAY = DatabaseUnavailable("the server is restarting")


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executing, "BATCH", 2)


def started(engine: Engine, kind: str, steps: str, **options: Any) -> Operation:
    """An operation on new steps, which is started and not executed."""
    refs = engine.plant(steps)
    preview = engine.app.operations.preview(kind, id=[ref.id for ref in refs.values()])
    return preview.execute(who="ann", wait=False, **options)


def done(*operations: Operation) -> list[int]:
    return [operation.progress().done for operation in operations]


def test_each_round_executes_one_batch_of_each_operation(engine: Engine) -> None:
    short, long = started(engine, "cancel", "a, b, c"), started(engine, "cancel", "d, e, f, g, h")
    part = OperationPart()
    part.add(short)
    part.add(long)
    part.add(short)  # it runs already
    assert (part.round(()), done(short, long)) == (0.0, [2, 2])
    assert (part.round(()), done(short, long)) == (0.0, [3, 4])
    assert (part.round(()), done(short, long)) == (IDLE_SECONDS, [3, 5])
    assert (part.is_idle(), part.report()) == (True, "2 operations executed")


def test_an_operation_with_a_pace_delays_only_itself(engine: Engine) -> None:
    slow, quick = started(engine, "cancel", "a, b", pace="1/hour"), started(engine, "cancel", "c, d, e, f")
    part = OperationPart()
    part.add(slow)
    part.add(quick)
    assert (part.round(()), done(slow, quick)) == (0.0, [1, 2])
    assert 3_500 < part.round(()) <= 3_600
    assert (done(slow, quick), part.is_idle()) == ([1, 4], False)


def test_an_outage_of_a_moment_delays_an_operation_and_does_not_end_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation, transact, calls = started(engine, "cancel", "a, b, c"), engine.app.database.transact, []

    def away(work: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) in (2, 3):
            raise AWAY
        return transact(work, **options)

    monkeypatch.setattr(engine.app.database, "transact", away)
    part = OperationPart()
    part.add(operation)
    loop = Loop(part)
    with in_thread(loop.run):
        part.wait_until_idle()
        loop.stop()
    monkeypatch.undo()
    assert (operation.row().state, done(operation), len(calls)) == ("done", [3], 4)


def test_an_outage_that_one_operation_meets_leaves_the_others_their_turn(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, free = started(engine, "cancel", "a"), started(engine, "cancel", "b, c, d")

    def away() -> None:
        raise AWAY

    part = OperationPart()
    part.add(held)
    part.add(free)
    with monkeypatch.context() as outage:
        outage.setattr(held, "round", away)
        for _ in range(2):
            with pytest.raises(DatabaseUnavailable):
                part.round(())
    assert done(held, free) == [0, 3]
    part.round(())
    assert (done(held, free), part.is_idle()) == ([1, 3], True)


def test_an_error_ends_one_operation_here_and_another_part_continues_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, sound = started(engine, "cancel", "a, b, c"), started(engine, "cancel", "d, e, f")

    def fail() -> None:
        raise ZeroDivisionError

    part = OperationPart()
    part.add(broken)
    part.add(sound)
    part.round(())
    with monkeypatch.context() as bug:
        bug.setattr(broken, "round", fail)
        part.round(())
    assert (part.is_idle(), done(broken, sound)) == (True, [2, 3])
    assert f"operation {broken.id} stopped; it can be continued" in caplog.text
    other = OperationPart()
    other.add(engine.app.operations.get(broken.id))
    other.round(())
    assert (other.is_idle(), done(broken), broken.row().state) == (True, [3], "done")


def test_a_stop_leaves_the_rest_to_be_continued(engine: Engine) -> None:
    operation = started(engine, "cancel", "a, b, c")
    part = OperationPart()
    part.add(operation)
    part.stop()
    part.round(())
    assert (done(operation), operation.row().state) == ([0], "running")
    engine.app.operations.get(operation.id).run()
    assert done(operation) == [3]
