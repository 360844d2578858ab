"""After the demo: the shop stays open for a minute, with the dashboard to watch it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from shlex import quote
from typing import Final

from stepwell import State, Stepwell
from stepwell.cli.output import Output
from stepwell.cli.parameters import os_user
from stepwell.cli.text import counted
from stepwell.cli.web_commands import announce_web
from stepwell.demo.shop import Shop
from stepwell.look.palette import SIGNS
from stepwell.model.redaction import shown_url
from stepwell.service.crew import Crew
from stepwell.service.part import Part
from stepwell.store import Wake
from stepwell.web import Token, application
from stepwell.web.guard.hosts import Hosts
from stepwell.web.server import HOST, WebPart

SLOTS: Final = 4
# An order takes about two seconds of the slots' time.
SECONDS_BETWEEN_ORDERS: Final = 1.0
# The last orders are taken this long before the end, so that most of them are done by then.
LAST_ORDERS_SECONDS: Final = 5.0


def stay_open(url: str, output: Output, seconds: float, program: str) -> None:
    """Serve the dashboard on a free port of this machine, with a workload, for this long or until Ctrl-C."""
    with Stepwell(url, name="demo") as app:
        shop = Shop(app)
        shop.open()
        web = WebPart(application(app, tokens=[Token.generated(os_user())], hosts=Hosts.of_server(HOST)))
        web.listen_on(HOST, 0)
        worker = app.worker(executor="thread", slots=SLOTS, grace_seconds=LAST_ORDERS_SECONDS)
        dispatching = app.parts.of_dispatcher(app.dispatcher(lock_seconds=worker.row.alive_seconds))
        beside = [app.parts.reaper(), app.parts.scheduler(), *app.main_processes.parts(), web, web.operations_part()]
        output.heading("The shop is open: watch it in a browser")
        announce_web(web, read_only=False)
        output.line(f"It closes in {seconds:g} s. Ctrl-C closes it now.")
        with _status(output) as show:
            street = _Street(shop, seconds, show)
            with Crew([street, worker, *dispatching, *beside]) as crew:
                street.on_end = crew.stop
                crew.run()
        shop.close()
    output.line(f"The shop is closed after {counted(shop.orders, 'order')}. To see its history:")
    output.line(f"  {program} --db {quote(shown_url(url))} web", whole=True)


@contextmanager
def _status(output: Output) -> Iterator[Callable[[str], None]]:
    """A line that changes, on a terminal."""
    if output.rich is None:
        yield lambda text: None
        return
    with output.rich.status("opening") as status:
        yield status.update


class _Street(Part):
    """Sends customers into the shop until it closes."""

    name = "street"
    on_end: Callable[[], None]

    def __init__(self, shop: Shop, seconds: float, show: Callable[[str], None]) -> None:
        self._shop = shop
        self._show = show
        self._now = shop.app.clock.monotonic
        self._closes = self._now() + seconds
        self._last_orders = self._closes - min(LAST_ORDERS_SECONDS, seconds / 2)

    def round(self, wakes: Collection[Wake]) -> float:
        left = self._closes - self._now()
        if left <= 0:
            self.on_end()
            return 0.0
        if self._now() < self._last_orders:
            self._shop.customer()
        states = self._shop.app.figures.totals().states
        shown = [State.RUNNING, State.PENDING, State.COMPLETED, State.FAILED]
        numbers = "  ".join(f"{SIGNS[state]} {state} {states[state]:,}" for state in shown)
        self._show(f"closes in {left:.0f} s  {numbers}")
        return min(SECONDS_BETWEEN_ORDERS, left)
