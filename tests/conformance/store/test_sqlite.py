"""SQLite: what is acknowledged stays, whatever dies or fills up, and many processes share one file."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stepwell import NewStep, Stepwell
from stepwell.model.errors import DatabaseUnavailable
from stepwell.store import Transaction, database
from stepwell.store.sqlite import checkpoints, lock_holders
from stepwell.store.sqlite import connections as sqlite
from stepwell.store.sqlite.connection import BUSY_SECONDS, KEPT_BYTES
from stepwell.store.sqlite.connections import SqliteConnections
from stepwell.testing import behave
from tests.conformance.support.engine import in_processes
from tests.conformance.support.ticks import expect_line, process, send_line, wait_for_exit

pytestmark = pytest.mark.sqlite


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "stepwell.db"


@pytest.fixture
def url(file: Path) -> str:
    return f"sqlite:///{file}"


@pytest.fixture
def app(url: str) -> Iterator[Stepwell]:
    with Stepwell(url) as app:
        yield app


def connection_of(app: Stepwell) -> sqlite3.Connection:
    connections = app.database.connections
    assert isinstance(connections, SqliteConnections)
    return connections.writer()


def rows(file: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(statement).fetchall()


def is_whole(file: Path) -> None:
    """Nothing is torn, the promises hold and the work goes on."""
    assert rows(file, "PRAGMA integrity_check") == [("ok",)]
    with Stepwell(f"sqlite:///{file}") as app:
        assert app.check_invariants() == []
        step = behave(app).enqueue(result="goes on")
        app.run_until_idle()
        assert app.step(step).response == "goes on"


def test_every_commit_is_synced_to_a_write_ahead_log_that_only_stepwell_checkpoints(app: Stepwell) -> None:
    for pragma, value in (("journal_mode", "wal"), ("synchronous", 2), ("wal_autocheckpoint", 0), ("foreign_keys", 1)):
        assert connection_of(app).execute(f"PRAGMA {pragma}").fetchone() == (value,), pragma


@pytest.mark.slow
def test_the_log_stays_short_over_many_commits_and_checkpoints_are_rare(app: Stepwell, file: Path) -> None:
    checkpoints: list[str] = []
    connection_of(app).set_trace_callback(lambda sql: checkpoints.append(sql) if "wal_checkpoint" in sql else None)
    log = Path(f"{file}-wal")
    app.job(name="declared")(lambda: None)  # a step of an unknown job has one more row

    app.enqueue_many([NewStep(action="nobody", arguments={"text": 20_000 * "x"}) for _ in range(300)])
    assert log.stat().st_size > KEPT_BYTES  # it was one long transaction
    assert len(checkpoints) == 1
    assert "RESTART" in checkpoints[0]
    for _ in range(40):
        app.enqueue("declared")
        assert log.stat().st_size == KEPT_BYTES  # and is written over, from its beginning
    assert len(checkpoints) == 1


def test_the_log_is_checkpointed_by_small_commits_too(
    app: Stepwell, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "CHECKPOINT_PAGES", 50)
    before, log = file.stat().st_size, Path(f"{file}-wal")
    # The creation of the schema was one long transaction; after it, the log grows by the pages between two checkpoints.
    longest = log.stat().st_size + 50 * 4096
    for _ in range(200):
        app.enqueue("nobody")
        assert log.stat().st_size < longest
    assert file.stat().st_size > before


@pytest.mark.slow
@pytest.mark.parametrize("page_size", [512, 65_536])
def test_the_log_is_checkpointed_whatever_the_size_of_its_pages(url: str, file: Path, page_size: int) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA page_size = {page_size}")
        connection.execute("VACUUM")
    with Stepwell(url) as app:
        assert connection_of(app).execute("PRAGMA page_size").fetchone() == (page_size,)
        app.enqueue("nobody")
        before = restarts_of_the_log(file)
        for number in range(1, 4):
            app.enqueue_many([NewStep(action="nobody", arguments={"text": page_size * "x"}) for _ in range(600)])
            assert restarts_of_the_log(file) == before + number - 1  # it is written over by the next commit
            app.enqueue("nobody")
            assert restarts_of_the_log(file) == before + number


def restarts_of_the_log(file: Path) -> int:
    """How often a commit began the log anew after a checkpoint: the fourth number of its header counts that.

    A trace of the statements would show the checkpoints, too, but writes out all rows of a statement for each of its
    triggers: that took a minute and a half.
    """
    return int.from_bytes(Path(f"{file}-wal").read_bytes()[12:16], "big")


DISK_FULL = """
import os, resource
from stepwell.model.errors import DatabaseUnavailable
app = Stepwell(url).open()
app.enqueue("nobody")
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = url.removeprefix("sqlite:///")
room = max(os.path.getsize(file), os.path.getsize(file + "-wal")) + 200_000
resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
try:
    while True:
        say(app.enqueue("nobody").id)
except DatabaseUnavailable as error:
    refusal = str(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
say(app.enqueue("nobody").id)
say(refusal)
"""


def test_a_write_that_fails_raises_and_loses_nothing_that_was_acknowledged(url: str, file: Path) -> None:
    with process(DISK_FULL, url) as (child,):
        *acknowledged, refusal = wait_for_exit(child).splitlines()
    assert "nothing was written" in refusal
    assert "SQLite reports" in refusal
    assert len(acknowledged) > 2
    assert rows(file, "SELECT id FROM steps WHERE id > 1 ORDER BY id") == [(int(step),) for step in acknowledged]
    is_whole(file)


def test_a_full_database_raises_and_works_again_when_there_is_room(app: Stepwell, file: Path) -> None:
    app.enqueue("nobody")
    (pages,) = connection_of(app).execute("PRAGMA page_count").fetchone()
    connection_of(app).execute(f"PRAGMA max_page_count = {pages + 5}")
    with pytest.raises(DatabaseUnavailable, match=r"database or disk is full.*nothing was written"):
        app.enqueue_many([NewStep(action="nobody") for _ in range(1_000)])
    assert len(app.steps()) == 1
    connection_of(app).execute("PRAGMA max_page_count = 1000000")
    app.enqueue_many([NewStep(action="nobody") for _ in range(1_000)])
    assert rows(file, "SELECT count(*) FROM steps") == [(1_001,)]
    is_whole(file)


def _enqueue(url: str, count: int) -> list[int]:
    with Stepwell(url) as app:
        return [app.enqueue("nobody").id for _ in range(count)]


@pytest.mark.slow
def test_eight_processes_that_write_at_once_all_get_through(url: str, file: Path) -> None:
    acknowledged = [step for steps in in_processes(_enqueue, [(url, 20)] * 8) for step in steps]
    assert len(set(acknowledged)) == 8 * 20
    assert {step for (step,) in rows(file, "SELECT id FROM steps")} == set(acknowledged)
    is_whole(file)


BULK = 3_000
# A cache of ten pages, so that the log holds much of the transaction long before its commit.
BULK_ENQUEUE = f"""
from stepwell import NewStep
app = Stepwell(url).open()
app.database.connections.writer().execute("PRAGMA cache_size = 10")
transact = app.database.transact
def wait_before_the_commit(work, **settings):
    def work_and_wait(tx):
        result = work(tx)
        say("written")
        wait_for_a_line()
        return result
    return transact(work_and_wait, **settings)
app.database.transact = wait_before_the_commit
say("ready")
app.enqueue_many([NewStep(action="nobody") for _ in range({BULK})])
say("done")
wait_for_a_line()
"""


def _log_grows(child: Any, file: Path) -> None:
    log = Path(f"{file}-wal")
    before = log.stat().st_size
    while child.poll() is None and log.stat().st_size < before + 200_000:
        os.sched_yield()


def _all_but_the_commit(child: Any, file: Path) -> None:
    expect_line(child, "written")


def _acknowledged(child: Any, file: Path) -> None:
    expect_line(child, "written")
    send_line(child)
    expect_line(child, "done")


@pytest.mark.parametrize(
    ("reaches_the_moment", "expected"),
    [(_log_grows, 0), (_all_but_the_commit, 0), (_acknowledged, BULK)],
)
def test_a_process_that_is_killed_in_a_bulk_enqueue_leaves_all_or_nothing(
    url: str, file: Path, reaches_the_moment: Callable[[Any, Path], None], expected: int
) -> None:
    with process(BULK_ENQUEUE, url) as (child,):
        expect_line(child, "ready")
        reaches_the_moment(child, file)
        assert child.poll() is None
        child.kill()
        child.wait()
    assert rows(file, "SELECT count(*) FROM steps") == [(expected,)]
    assert rows(file, "SELECT count(*) FROM steps_agenda") == [(expected,)]
    with Stepwell(url) as app:
        assert app.sweep() == []
    is_whole(file)


def test_readers_do_not_wait_for_writers(app: Stepwell) -> None:
    step = behave(app).enqueue()
    read: list[str] = []

    def write(tx: Transaction) -> None:
        tx.fetch("UPDATE steps SET label = 'new'", {})
        reader = threading.Thread(target=lambda: read.append(str(app.step(step).label)))
        reader.start()
        reader.join(30)

    app.database.transact(write)
    assert read == ["None"]
    assert app.step(step).label == "new"


def test_a_long_reader_delays_one_checkpoint_and_the_log_is_truncated_afterwards(
    app: Stepwell, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "BUSY_SECONDS", 0.2)
    log = Path(f"{file}-wal")
    job = behave(app)
    job.enqueue()
    with closing(sqlite3.connect(file)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM steps").fetchone()
        for _ in range(3):
            app.enqueue_many(job.draft() for _ in range(3_000))
        assert log.stat().st_size > KEPT_BYTES
        assert app.database.connections._checkpoints._not_before > 0  # type: ignore[attr-defined]
    app.database.connections._checkpoints._not_before = 0.0  # type: ignore[attr-defined]
    for _ in range(3):
        job.enqueue()
    assert log.stat().st_size == KEPT_BYTES


def test_a_job_that_is_in_its_own_way_spends_its_retries_and_ends(
    app: Stepwell, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.02)
    monkeypatch.setattr(database, "CONFLICT_TRIES", 2)
    other = behave(app)

    @app.job(retries=1, backoff=0)
    def order(in_transaction: bool) -> None:
        with closing(sqlite3.connect(file)) as mine, mine:
            mine.execute("CREATE TABLE IF NOT EXISTS orders (id integer PRIMARY KEY)")
            mine.execute("INSERT INTO orders DEFAULT VALUES")
            app.enqueue(other.action, connection=mine if in_transaction else None)

    stuck, well_made = order.enqueue(False), order.enqueue(True)
    app.run_until_idle()
    step = app.step(stuck)
    assert (step.state, step.reason, step.attempts) == ("Failed", "max_retries_reached", 2)
    assert "pass its `connection=` to enqueue, or commit first" in str(step.error_message)
    assert app.step(well_made).state == "Completed"
    assert (len(app.steps(action=other.action)), rows(file, "SELECT count(*) FROM orders")) == (1, [(1,)])


def test_arguments_that_plain_sql_writes_as_bytes_are_refused(app: Stepwell, file: Path) -> None:
    """JSON of SQLite holds no bytes: one such step must not stop the others."""
    job = behave(app)
    with (
        closing(sqlite3.connect(file)) as other,
        pytest.raises(sqlite3.IntegrityError, match="BLOB value in TEXT column"),
    ):
        other.execute("INSERT INTO steps (action, arguments) VALUES (?, ?)", ("behave", b'{"result": "of bytes"}'))
    after = job.enqueue(result="of text")
    app.run_until_idle()
    assert app.step(after).response == "of text"


def test_a_checkpoint_waits_for_writers_as_long_as_they_for_each_other(app: Stepwell, file: Path) -> None:
    """One that gave up sooner would be made beside them (PASSIVE), which can corrupt the file on old versions."""
    said: list[str] = []
    job = behave(app)
    connection_of(app).set_trace_callback(said.append)
    while "PRAGMA wal_checkpoint(RESTART)" not in said:
        app.enqueue_many(job.draft() for _ in range(500))
    before = said[: said.index("PRAGMA wal_checkpoint(RESTART)")]
    waits = [statement for statement in before if statement.startswith("PRAGMA busy_timeout")]
    assert waits[-1] == f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}"


def test_a_file_behind_a_link_is_checkpointed_too_wherever_the_program_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "elsewhere" / "real.db")
    monkeypatch.chdir(tmp_path)
    with Stepwell("sqlite:///link.db") as app:
        monkeypatch.chdir(tmp_path / "elsewhere")
        for _ in range(5):
            app.enqueue_many(NewStep(action="nobody") for _ in range(2_000))
        assert len(app.steps(limit=1)) == 1
        app.enqueue("nobody")
    assert not (tmp_path / "elsewhere" / "link.db").exists()
    assert (tmp_path / "elsewhere" / "real.db").stat().st_size > KEPT_BYTES


def test_a_transaction_that_writes_nothing_makes_no_checkpoint(app: Stepwell) -> None:
    app.enqueue_many([NewStep(action="nobody", arguments={"text": 20_000 * "x"}) for _ in range(300)])
    checkpoints: list[str] = []
    connection_of(app).set_trace_callback(lambda sql: checkpoints.append(sql) if "wal_checkpoint" in sql else None)
    for _ in range(5):
        app.database.transact(lambda tx: None)
    assert checkpoints == []


def test_a_shared_file_with_a_rollback_journal_is_opened_when_its_reader_has_finished(url: str, file: Path) -> None:
    reading = """
import sqlite3, sys
connection = sqlite3.connect(FILE, isolation_level=None)
connection.execute("BEGIN")
connection.execute("SELECT * FROM theirs").fetchall()
say("reads")
wait_for_a_line()
import time
time.sleep(0.5)  # until the other one waits for it
connection.execute("COMMIT")
say("done")
wait_for_a_line()
"""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE theirs (id integer)")
        connection.commit()
    with process(reading.replace("FILE", repr(str(file))), url) as (child,):
        expect_line(child, "reads")
        send_line(child)
        with Stepwell(url) as app:
            app.enqueue("nobody")
        expect_line(child, "done")


@pytest.mark.parametrize("factory", [bytes, bytearray, lambda text: text.decode().upper()])
def test_a_caller_with_another_text_factory_writes_the_same_steps(app: Stepwell, file: Path, factory: Any) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.text_factory = factory
        ref = app.enqueue("nobody", delay=60, connection=connection)
        connection.commit()
        assert connection.text_factory is factory
    groups = {step.group for step in [app.step(ref), *(app.step(app.enqueue("nobody")) for _ in range(9))]}
    assert groups == {group for (group,) in rows(file, 'SELECT "group" FROM steps_dispatcher')}


def test_texts_and_numbers_may_be_of_a_kind_of_their_own(app: Stepwell) -> None:
    class Text(str): ...

    class Number(int): ...

    first = app.enqueue("nobody", key=Text("one"))
    assert app.enqueue("nobody", key=Text("one")) == first
    assert app.step(app.enqueue("nobody", parent=Number(first.id))).parent_step_id == first.id


@pytest.mark.skipif(not lock_holders.LOCKS.exists(), reason="locks are listed by Linux only")
def test_asking_for_a_suspended_writer_leaves_no_deleted_file_open(url: str, file: Path) -> None:
    for _ in range(3):
        with Stepwell(url) as app:
            app.enqueue("work")
            assert app.database.suspended_writer() is None
            open_files = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
            assert [name for name in open_files if name == f"{file}-shm (deleted)"] == []


def test_no_version_of_a_database_is_that_of_an_earlier_opening(app: Stepwell) -> None:
    seen = {app.database.data_version()}
    for _ in range(3):
        app.close()
        app.open()
        seen.add(app.database.data_version())
    assert len(seen) == 4
