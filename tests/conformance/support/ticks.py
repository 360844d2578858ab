"""Shared by the tests of ticks: single ticks, steps in every state, other processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Unpack

from stepwell import StepRef, Stepwell
from stepwell.dispatch.tick import Tick, TickOptions, TickReport
from stepwell.model.claimed import Claim
from stepwell.run.inline import InlineRunner
from tests.conformance.support.engine import Engine

GROUP = "alpha"


def tick(app: Stepwell, group: str = GROUP, *, owner: str = "this test", **options: Unpack[TickOptions]) -> TickReport:
    """Exactly one tick of one group, whether or not the probe finds work in it."""
    report = Tick(app.database, owner, **options).run(group)
    if report.error is not None:
        raise report.error
    return report


def rows(report: TickReport) -> dict[str, int]:
    """The phases that changed rows (or picked some), by name."""
    found = {ran.phase.name: ran.count for ran in report.phases}
    return {name: rows for name, rows in found.items() if rows}


def ran(report: TickReport) -> list[int]:
    """The numbers of the phases that ran."""
    return [ran.phase.number for ran in report.phases]


def run(runner: InlineRunner, *claims: Claim) -> None:
    """Run these claims to their end."""
    for claim in claims:
        runner._run(claim)


def run_level(engine: Engine, runner: InlineRunner, *labels: str) -> None:
    """Tick, claim and run these steps; others that are dispatched with them stay Running, their lease held."""
    run(runner, *engine.claim(runner, *labels))


def force(engine: Engine, label: str, state: str) -> None:
    """Change the state of a step by plain SQL, as far as the transition table allows."""
    changed = engine.change("UPDATE steps SET state = :state WHERE id = :id", state=state, id=engine.refs[label].id)
    assert changed == 1


def make_succeed(engine: Engine, label: str) -> None:
    """Make the step succeed from now on, so that a retry completes it."""
    engine.change(
        "UPDATE steps SET arguments = :good WHERE id = :id", good='{"outcome": "ok"}', id=engine.refs[label].id
    )


def every_state(engine: Engine, runner: InlineRunner) -> dict[str, Claim]:
    """A tree with descendants in all nine states, some of them two and three levels down; returns the open claims.

    Below `root` (Running, waiting): `done` Completed, `passed` Skipped, `broken` Failed, `halted` Stopped, `ended`
    Cancelled, `after` NotRunnable behind them, `mid` Running and waiting. Below `mid`: `busy` Running, `queued`
    Dispatched, `later` Pending with `deep` Pending below it, `asleep` a dormant handler.
    """
    engine.plant(
        "root(done, passed:skip, broken:fail, halted:stop, ended, mid(busy, queued > later(deep), !asleep) > after)",
        group=GROUP,
    )
    run_level(engine, runner, "root")
    claims = dict(
        zip(names := ("done", "passed", "broken", "halted", "ended", "mid"), engine.claim(runner, *names), strict=True)
    )
    engine.app.cancel(engine.refs["ended"], who="tester")
    run(runner, *claims.values())
    engine.tick()
    (busy,) = runner.claim(1)
    assert busy.step_id == engine.refs["busy"].id
    assert engine.states() == {
        "root": "Running", "done": "Completed", "passed": "Skipped", "broken": "Failed", "halted": "Stopped",
        "ended": "Cancelled", "mid": "Running", "busy": "Running", "queued": "Dispatched", "later": "Pending",
        "deep": "Pending", "asleep": "NotRunnable", "after": "NotRunnable",
    }  # fmt: skip
    return {"busy": busy}


def insert_sql(app: Stepwell, **columns: Any) -> None:
    """The documented INSERT: a step written by plain SQL, at the time of the test's clock."""
    columns = {"created_at": app.clock.now(), "updated_at": app.clock.now()} | columns
    names = ", ".join(f'"{name}"' for name in columns)
    if app.database.dialect == "sqlite":
        values = ", ".join(f":{name}" for name in columns)
    else:
        values = ", ".join(f"%({name})s" for name in columns)
    app.database.transact(lambda tx: tx.execute(f"INSERT INTO steps ({names}) VALUES ({values})", columns))


# Other processes ------------------------------------------------------------------------------------------

_PRELUDE = """
import sys, os, signal
from stepwell import Stepwell
from stepwell.testing import behave
url = sys.argv[1]
def say(word):
    print(word, flush=True)
def wait_for_a_line():
    sys.stdin.readline()
"""


@contextmanager
def process(script: str, *arguments: str, count: int = 1) -> Iterator[list[subprocess.Popen[str]]]:
    """Python processes that run a script with `say` and `wait_for_a_line`; they are killed at the end."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _PRELUDE + script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    try:
        yield started
    finally:
        for child in started:
            if child.poll() is None:
                child.kill()
            child.communicate()


def expect_line(child: subprocess.Popen[str], word: str) -> None:
    """Wait until the process prints this line."""
    assert child.stdout is not None
    line = child.stdout.readline()
    if line.strip() != word:
        _, errors = child.communicate()
        raise AssertionError(f"expected {word!r}, got {line!r}\n{errors}")


def send_line(child: subprocess.Popen[str]) -> None:
    """Send the line that a process waits for."""
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def wait_for_exit(child: subprocess.Popen[str]) -> str:
    """Wait for the exit of a process that must succeed; returns the rest of its output."""
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    return output


def ids(refs: list[StepRef]) -> list[int]:
    return [ref.id for ref in refs]
