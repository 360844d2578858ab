"""`stepwell top`: the figures of one moment, once or again and again."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator

import pytest

from stepwell import Stepwell
from stepwell.cli import top_part
from stepwell.cli.output import Column
from stepwell.cli.top_figures import Snapshot, take_snapshot
from stepwell.cli.top_view import Section, fitted
from stepwell.look import palette
from stepwell.model.errors import DatabaseUnavailable
from stepwell.testing import behave
from tests.unit.cli.support import ANSI, PATIENCE, ask, command, environment, on_terminal, process, run

ROWS, COLUMNS = 24, 80


@pytest.fixture
def app(shared_database_url: str) -> Iterator[Stepwell]:
    """One step runs, one has failed, one waits."""
    with Stepwell(shared_database_url) as app:
        behave(app)
        app.enqueue("behave", {"outcome": "fail"}, label="broken")
        app.run_until_idle()
        app.enqueue("behave", label="long report")
        runner = app.inline_runner()
        app.dispatch_once()
        runner.claim(1)
        app.enqueue("behave", label="next in line")
        yield app
        runner.close()


def test_one_picture_shows_totals_running_steps_classes_and_failures(app: Stepwell) -> None:
    app.breaker.pause("ann", "deploy of the shop")
    shown = run(app.database.url, "top", "--once").stdout
    assert "Dispatching PAUSED by ann for " in shown
    assert ": deploy of the shop" in shown
    assert "· Pending 1   ~ Throttled 0   → Dispatched 0   ▶ Running 1" in shown
    assert "✗ Failed 1" in shown
    assert "▶ long report" in shown
    assert "✗ behave: " in shown


def test_the_picture_fits_80_columns_and_has_the_signs_and_colours_of_the_palette(app: Stepwell) -> None:
    lines = on_terminal(app.database.url, "top", "--once")
    assert max(map(len, lines)) <= COLUMNS
    assert all(any(f"{look.sign} {look.word} " in line for line in lines) for look in palette.ALL)


def test_json_has_the_figures_of_the_moment(app: Stepwell) -> None:
    found = ask(app.database.url, "top")
    assert found["totals"]["states"] == app.figures.totals().states
    assert [row["label"] for row in found["running"]] == ["long report"]
    assert [row["steps"] for row in found["causes"]] == [1]
    assert found["breaker"]["dispatching"] is True


def test_without_a_terminal_it_prints_a_line_per_interval_until_it_is_stopped(app: Stepwell) -> None:
    with process(app.database.url, "top", "--interval", "0.1") as started:
        assert started.stdout is not None
        first, second = started.stdout.readline(), started.stdout.readline()
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=PATIENCE)
    assert (started.returncode, err) == (0, "")
    for line in (first, second):
        assert "Z Pending 1, Dispatched 0, Running 1, Failed 1, " in line


@pytest.mark.slow
def test_it_ends_when_the_reader_of_its_lines_is_gone(app: Stepwell) -> None:
    with process(app.database.url, "top", "--interval", "0.1") as started:
        assert started.stdout is not None
        started.stdout.readline()
        started.stdout.close()
        assert started.wait(PATIENCE) == 0
        assert started.stderr is not None
        assert started.stderr.read() == ""


@pytest.mark.slow
def test_on_a_terminal_it_draws_one_screen_and_leaves_the_terminal_as_it_was(app: Stepwell) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with subprocess.Popen(
        command(app.database.url, "top", "--interval", "0.1"),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment() | {"TERM": "xterm-256color"},
    ) as started:
        os.close(slave)
        try:
            shown = ""
            while shown.count("Ctrl-C ends") < 2:
                shown += os.read(master, 65_536).decode(errors="replace")
            started.send_signal(signal.SIGINT)
            shown += _rest(master)
            assert started.wait(PATIENCE) == 0
        finally:
            started.kill()
    os.close(master)
    assert "\x1b[?1049h" in shown
    assert shown.rstrip().endswith("\x1b[?1049l"), "back on the terminal's own screen"
    picture = ANSI.sub("", shown.split("\x1b[H")[-1]).splitlines()
    assert len(picture) <= ROWS
    assert any("long report" in line for line in picture)


def _rest(terminal: int) -> str:
    parts = []
    while True:
        try:
            parts.append(os.read(terminal, 65_536))
        except OSError:  # the other end is closed
            return b"".join(parts).decode(errors="replace")


def test_tables_share_the_lines_of_the_screen_and_say_what_they_hide() -> None:
    def section(title: str, rows: int) -> Section:
        return Section(title, [Column("NAME")], [[str(row)] for row in range(rows)], "none", main=0)

    short, long, empty = fitted([section("short", 2), section("long", 50), section("empty", 0)], 20)
    assert (len(short.rows), len(long.rows), len(empty.rows)) == (2, 12, 0)
    assert long.columns[0].name == "NAME (38 more)"
    assert short.columns[0].name == "NAME"


def test_while_the_database_does_not_answer_the_last_picture_stays_and_says_so(
    app: Stepwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[Snapshot, str | None]] = []
    part = top_part.TopPart(app, 1.0, lambda now, problem: shown.append((now, problem)))
    part.open()
    part.round([])

    def unavailable(app: Stepwell) -> Snapshot:
        raise DatabaseUnavailable("the server is gone")

    monkeypatch.setattr(top_part, "take_snapshot", unavailable)
    part.round([])
    monkeypatch.setattr(top_part, "take_snapshot", take_snapshot)
    part.round([])
    assert [problem for _, problem in shown] == [None, "the server is gone", None]
    assert shown[1][0] is shown[0][0]
