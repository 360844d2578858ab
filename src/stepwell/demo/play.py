"""Playing the story: three workers in threads, one dispatcher, and a screen that follows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from stepwell import Stepwell
from stepwell.cli.output import Output
from stepwell.demo.screen import screen_for
from stepwell.demo.story import Story
from stepwell.demo.summary import write_summary

WORKERS: Final = 3
# Idle workers and the dispatcher look this often: below what an eye notices.
LOOK_SECONDS: Final = 0.03
# The story takes seven seconds; a machine that needs so much more is not going to make it.
LONGEST_SECONDS: Final = 60.0


def play(url: str, output: Output, *, pace: float = 1.0, program: str = "stepwell") -> bool:
    """Tell the whole story on a database; returns whether everything ended as it should."""
    with Stepwell(url) as app:
        if not app.breaker.state().dispatching:
            output.line("Dispatching is paused on this database, so nothing would move: `stepwell resume` first.")
            return False
        story = Story(app, pace)
        started = app.clock.monotonic()
        with _workers(app) as (progress, errors):
            story.begin()
            with screen_for(output, story, WORKERS) as screen:
                dispatcher = app.dispatcher()
                while not (errors or story.over()) and app.clock.monotonic() < started + LONGEST_SECONDS:
                    reports = dispatcher.round()
                    for report in reports:
                        if report.error is not None:
                            raise report.error
                    story.look_in()
                    screen.follow()
                    if not any(report.changed for report in reports):
                        progress.wait(LOOK_SECONDS)
                        progress.clear()
                screen.follow()
        return write_summary(output, story, url, app.clock.monotonic() - started, program)


@contextmanager
def _workers(app: Stepwell) -> Iterator[tuple[threading.Event, list[Exception]]]:
    """Workers that run steps until the block is left; the event is set whenever one has ended a run, or broke down."""
    stop, progress = threading.Event(), threading.Event()
    errors: list[Exception] = []

    def work() -> None:
        try:
            runner = app.inline_runner(slots=1, watch=lambda step, state: progress.set())
            try:
                while not stop.is_set():
                    if not runner.round():
                        stop.wait(LOOK_SECONDS)
            finally:
                runner.close()
        except Exception as error:
            errors.append(error)
            progress.set()

    threads = [threading.Thread(target=work, name=f"demo worker {number}") for number in range(WORKERS)]
    for thread in threads:
        thread.start()
    try:
        yield progress, errors
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
