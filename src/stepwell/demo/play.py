"""Running the demo: three workers, one dispatcher, and a screen that shows what happens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from stepwell import Stepwell
from stepwell.cli.output import Output
from stepwell.demo.screen import Screen, screen_for
from stepwell.demo.story import Story
from stepwell.demo.summary import write_summary
from stepwell.service.crew import Crew
from stepwell.service.part import Part
from stepwell.service.wakeup import WakePipe
from stepwell.store import Wake

WORKERS: Final = 3
# How often idle workers and the dispatcher look for work: too short to notice.
LOOK_SECONDS: Final = 0.03
# The demo takes seven seconds; after this long something is wrong.
LONGEST_SECONDS: Final = 60.0


def play(url: str, output: Output, *, pace: float = 1.0, program: str = "stepwell") -> bool:
    """Run the demo on a database; returns whether everything ended as expected."""
    with Stepwell(url) as app:
        if not app.breaker.state().dispatching:
            output.line("Dispatching is paused on this database: run `stepwell resume` first.")
            return False
        story = Story(app, pace)
        started = app.clock.monotonic()
        story.begin()
        with screen_for(output, story, WORKERS) as screen:
            demo = _DemoPart(app, story, screen)
            workers = [_InlineWorker(app, number, demo.wake) for number in range(1, WORKERS + 1)]
            with Crew([demo, *workers], on_signal=demo.interrupt) as crew:
                demo.on_end = crew.stop
                crew.run()
        if demo.is_interrupted:
            raise KeyboardInterrupt
        for error in demo.errors:
            raise error
        return write_summary(output, story, url, app.clock.monotonic() - started, program)


class _DemoPart(Part):
    """Runs the dispatcher, the actions of users and the screen until every step has ended."""

    name = "demo"
    on_end: Callable[[], None]

    def __init__(self, app: Stepwell, story: Story, screen: Screen) -> None:
        self._clock = app.clock
        self._dispatcher = app.dispatcher()
        self._story = story
        self._screen = screen
        self._progress = WakePipe()
        self._deadline = app.clock.monotonic() + LONGEST_SECONDS
        self.wake = self._progress.wake
        self.is_interrupted = False
        self.errors: list[BaseException] = []  # of ticks: the dispatcher itself would continue

    def files(self) -> Sequence[Any]:
        return [self._progress]

    def round(self, wakes: Collection[Wake]) -> float:
        self._progress.clear()
        reports = self._dispatcher.round()
        self.errors += [report.error for report in reports if report.error is not None]
        self._story.act()
        self._screen.update()
        if self.errors or self._story.is_over() or self._clock.monotonic() >= self._deadline:
            self.on_end()
        return 0.0 if any(report.changed for report in reports) else LOOK_SECONDS

    def interrupt(self) -> None:
        self.is_interrupted = True

    def close(self) -> None:
        self._screen.update()


class _InlineWorker(Part):
    """Runs one step at a time, in its own thread."""

    def __init__(self, app: Stepwell, number: int, on_run: Callable[[], None]) -> None:
        self.name = f"demo worker {number}"
        self._app = app
        self._on_run = on_run

    def open(self) -> None:
        self._runner = self._app.inline_runner(slots=1, watch=lambda step, state: self._on_run())

    def round(self, wakes: Collection[Wake]) -> float:
        return 0.0 if self._runner.round() else LOOK_SECONDS

    def close(self) -> None:
        self._runner.close()
