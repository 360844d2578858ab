"""When an app connects: on first use, in every process for itself, and not again after it was closed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell import AppClosed, DatabaseUnavailable, Stepwell
from tests.conformance.support.ticks import process, wait_for_exit

AWAY = "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1"


@pytest.mark.parametrize("url", [AWAY, "sqlite:///{}/no/such/folder/stepwell.db", "sqlite://"])
def test_making_an_app_touches_nothing(url: str, tmp_path: Path) -> None:
    script = """
import threading
before = len(os.listdir("/proc/self/fd"))
app = Stepwell(url)
@app.job(queue="emails")
def fetch(symbol: str) -> str: ...
assert threading.active_count() == 1
assert not {"sqlite3", "psycopg", "psycopg_pool"} & sys.modules.keys()
assert len(os.listdir("/proc/self/fd")) == before
"""
    with process(script, url.format(tmp_path)) as (child,):
        wait_for_exit(child)
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_away_is_an_error_of_the_first_use_and_of_every_other_until_it_is_there(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "later"
    app = Stepwell(f"sqlite:///{folder}/stepwell.db")
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable):
            app.enqueue("nobody")
    folder.mkdir()
    app.enqueue("nobody")
    assert len(app.steps()) == 1
    app.close()


USES: list[Callable[[Stepwell], Any]] = [
    lambda app: app.steps(),
    lambda app: app.enqueue("nobody"),
    lambda app: app.stats(),
    lambda app: app.run_until_idle(),
    lambda app: app.database.listen(),
]


@pytest.mark.sqlite_file
def test_a_closed_app_refuses_every_use_until_it_is_opened_again(database_url: str) -> None:
    app = Stepwell(database_url).open()
    app.enqueue("nobody")
    app.close()
    app.close()
    for use in USES:
        with pytest.raises(AppClosed, match=r"was closed; nothing was done\. Call `open"):
            use(app)
    with app.open():
        assert len(app.steps()) == (1 if app.database.is_shared else 0)
    with pytest.raises(AppClosed):
        app.steps()


def test_an_app_that_was_closed_before_its_first_use_is_closed_too(database_url: str) -> None:
    app = Stepwell(database_url)
    app.close()
    with pytest.raises(AppClosed):
        app.enqueue("nobody")


# Forks ----------------------------------------------------------------------------------------------------

_HELPERS = """
import threading
def files():
    names = set()
    for file in os.listdir("/proc/self/fd"):
        try:
            names.add(os.readlink(f"/proc/self/fd/{file}"))
        except OSError:
            pass
    return {name for name in names if "stepwell.db" in name or name.startswith("socket:")}
def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except Exception as error:
            sys.stderr.write(repr(error))
            os._exit(1)
        sys.exit(0)  # as a program ends: with everything that is finalized then
    _, status = os.waitpid(child, 0)
    assert status == 0, status
"""


def run_script(script: str, url: str) -> list[str]:
    with process(_HELPERS + script, url) as (child,):
        return wait_for_exit(child).split()


def test_a_forked_process_opens_the_database_for_itself_and_the_parent_goes_on(shared_database_url: str) -> None:
    script = """
app = Stepwell(url).open()
app.enqueue("of the parent")
mine = files()
def work():
    assert not files() & mine, "the child still holds files of its parent"
    app.enqueue("of the child")
    assert len(app.steps()) == 2
    app.close()
in_child(work)
app.enqueue("of the parent")
say(len(app.steps()))
def grandchild():
    app.enqueue("of a child")
    in_child(lambda: app.enqueue("of a grandchild"))
    app.enqueue("of a child")
in_child(grandchild)
app.enqueue("of the parent")
say(len(app.steps()))
"""
    assert run_script(script, shared_database_url) == ["3", "7"]


def test_a_transaction_of_another_thread_is_not_disturbed_by_a_fork(shared_database_url: str) -> None:
    script = """
app = Stepwell(url).open()
inside, forking = threading.Event(), threading.Event()
os.register_at_fork(before=forking.set)
def hold(tx):
    tx.execute("UPDATE steps_dispatcher SET last_selected_at = NULL", {})
    inside.set()
    assert forking.wait(60)
    tx.execute("UPDATE steps_dispatcher SET current_tick_id = 7", {})
thread = threading.Thread(target=lambda: app.database.transact(hold))
thread.start()
assert inside.wait(60)
in_child(lambda: app.enqueue("of the child"))
thread.join()
say(len(app.steps()))
say({group.current_tick_id for group in app.groups()} == {7})
"""
    assert run_script(script, shared_database_url) == ["1", "True"]


def test_a_fork_does_not_wait_for_a_transaction_that_asks_who_holds_locks(tmp_path: Path) -> None:
    """As a commit does before a checkpoint."""
    script = """
from pathlib import Path
from stepwell.store.sqlite.lock_holders import suspended_reader_of
app = Stepwell(url).open()
inside, forking = threading.Event(), threading.Event()
os.register_at_fork(before=forking.set)
def hold(tx):
    inside.set()
    assert forking.wait(60)
    for _ in range(1_000):
        suspended_reader_of(Path(url.removeprefix("sqlite:///")))
thread = threading.Thread(target=lambda: app.database.transact(hold))
thread.start()
assert inside.wait(60)
in_child(lambda: app.enqueue("of the child"))
thread.join()
say(len(app.steps()))
"""
    assert run_script(script, f"sqlite:///{tmp_path}/stepwell.db") == ["1"]


def test_many_forked_processes_and_their_parent_write_at_once(shared_database_url: str) -> None:
    script = """
app = Stepwell(url).open()
app.enqueue("nobody")
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        for _ in range(25):
            app.enqueue("nobody")
        sys.exit(0)
    children.append(child)
    for _ in range(5):
        app.enqueue("nobody")
for child in children:
    assert os.waitpid(child, 0)[1] == 0
say(app.stats().states["Pending"])
say(len(app.check_invariants()))
say(len({step.uuid for step in app.steps(limit=1000)}))
"""
    assert run_script(script, shared_database_url) == ["121", "0", "121"]


def test_a_parent_that_runs_steps_and_listens_is_not_disturbed_by_a_fork(shared_database_url: str) -> None:
    script = """
app = Stepwell(url)
@app.job
def double(number: int) -> int:
    return 2 * number
running = threading.Thread(target=app.run, kwargs={"executor": "thread", "slots": 2})
running.start()
say(double.enqueue(1).result(60))
for number in range(3):
    in_child(lambda: say(double.enqueue(10 + number).result(60)))
    say(double.enqueue(20 + number).result(60))
app.stop()
running.join()
"""
    assert run_script(script, shared_database_url) == ["2", "20", "40", "22", "42", "24", "44"]


def test_a_database_in_memory_cannot_be_used_in_a_forked_process() -> None:
    script = """
from stepwell import DatabaseUnavailable
app = Stepwell(url).open()
app.enqueue("nobody")
fresh = Stepwell(url)
def work():
    for use in (app.steps, lambda: app.enqueue("nobody")):
        try:
            use()
        except DatabaseUnavailable as error:
            assert "is in the memory of the process that opened it" in str(error), error
        else:
            raise AssertionError("it was used")
    fresh.enqueue("of the child")
in_child(work)
app.enqueue("nobody")
say(len(app.steps()))
"""
    assert run_script(script, "sqlite://") == ["2"]


def test_a_fork_inside_a_transaction_leaves_the_parents_transaction_alone(shared_database_url: str) -> None:
    script = """
app = Stepwell(url).open()
def work(tx):
    tx.execute("UPDATE steps_dispatcher SET current_tick_id = 7", {})
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
app.database.transact(work)
say({group.current_tick_id for group in app.groups()} == {7})
"""
    assert run_script(script, shared_database_url) == ["True"]


_POOL = """
import multiprocessing
import sys
from stepwell import Stepwell

app = Stepwell({url!r})

@app.job
def double(number: int) -> int:
    return 2 * number

if __name__ == "__main__":
    double.enqueue(0)  # it is open in this process
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        handles = pool.map(double.options(label="of a pool").enqueue, range(1, 6))
    app.run_until_idle()
    print(sorted(handle.result(1) for handle in handles))
    print({{step.label for step in app.steps()}} == {{None, "of a pool"}})
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_jobs_can_be_enqueued_by_a_pool_of_processes(shared_database_url: str, method: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_POOL.format(url=shared_database_url))
    ended = subprocess.run(
        [sys.executable, str(program), method], capture_output=True, text=True, timeout=120, check=False, env=os.environ
    )
    assert ended.stdout.splitlines() == ["[2, 4, 6, 8, 10]", "True"], ended.stderr
