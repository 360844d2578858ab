"""Transactions that are begun inside of `Database.together` are parts of one."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from stepwell import ActionRefused, Stepwell
from stepwell.store import Conflict

pytestmark = pytest.mark.sqlite_file


def test_what_is_written_inside_is_seen_inside_and_committed_at_once(app: Stepwell) -> None:
    committed = []

    def watch(moment: str, tx: Any) -> None:
        if moment == "after":
            committed.append(moment)

    def work(_: Any) -> int:
        step = app.enqueue("work")
        app.cancel(step, who="ann")
        return len(app.operations.of_step(step.id)) + len(app.steps())

    app.open()
    app.database.watch = watch
    assert app.database.together(work) == 2
    assert len(committed) == 1
    assert len(app.steps()) == 1


def test_an_error_undoes_everything(app: Stepwell) -> None:
    def work(_: Any) -> None:
        app.enqueue("work")
        app.breaker.pause("ann")
        raise KeyError

    with pytest.raises(KeyError):
        app.database.together(work)
    assert (app.steps(), app.breaker.state().dispatching) == ([], True)
    app.enqueue("work")  # and the thread is outside of it
    assert len(app.steps()) == 1


def test_a_part_that_is_refused_undoes_only_itself_with_what_it_would_have_called_afterwards(app: Stepwell) -> None:
    called = []

    def refused(tx: Any) -> None:
        app.enqueue("lost")
        app.database.after_commit(lambda: called.append("lost"))
        raise ActionRefused("no")

    def work(_: Any) -> None:
        app.enqueue("kept")
        app.database.after_commit(lambda: called.append("kept"))
        with pytest.raises(ActionRefused):
            app.database.transact(refused)
        assert called == []

    app.database.together(work)
    assert ([step.action for step in app.steps()], called) == (["kept"], ["kept"])


def test_a_conflict_inside_repeats_the_whole(app: Stepwell) -> None:
    tries: list[int] = []
    called: list[int] = []

    def work(_: Any) -> None:
        app.enqueue("work")
        app.database.after_commit(lambda: called.append(len(tries)))
        tries.append(1)
        if len(tries) < 3:
            app.database.transact(lambda tx: _conflict())

    app.database.together(work)
    assert (len(app.steps()), len(tries), called) == (1, 3, [3])


def _conflict() -> None:
    raise Conflict("another transaction")


def test_other_threads_are_outside(app: Stepwell) -> None:
    seen: list[Any] = []

    def work(_: Any) -> None:
        other = threading.Thread(target=lambda: app.database.after_commit(lambda: seen.append("at once")))
        other.start()
        other.join()
        assert seen == ["at once"]

    app.database.together(work)


def test_one_inside_of_another_is_a_part_of_it(app: Stepwell) -> None:
    called = []

    def inner(_: Any) -> None:
        app.enqueue("work")
        app.database.after_commit(lambda: called.append("inner"))

    def outer(_: Any) -> None:
        app.database.together(inner)
        assert called == []
        raise ActionRefused("no")

    with pytest.raises(ActionRefused):
        app.database.together(outer)
    assert (app.steps(), called) == ([], [])


def test_the_changes_of_its_parts_are_published_after_its_commit_and_only_then(app: Stepwell) -> None:
    seen: list[str] = []
    app.database.hooks.after_commit(lambda changes: seen.extend(change.action for change in changes))

    def work(_: Any) -> None:
        app.enqueue("work")
        with pytest.raises(ActionRefused):
            app.database.transact(lambda tx: _refuse_after(app.enqueue("lost")))
        assert seen == []

    app.database.together(work)
    assert seen == ["work"]


def _refuse_after(_: object) -> None:
    raise ActionRefused("no")
