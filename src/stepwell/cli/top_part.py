"""The part of `top` that takes and shows a snapshot each round."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from stepwell.cli.top_figures import Snapshot, take_snapshot
from stepwell.model.errors import DatabaseUnavailable
from stepwell.service.part import Part
from stepwell.store import Wake

if TYPE_CHECKING:
    from stepwell import Stepwell


class TopPart(Part):
    """Takes and shows a snapshot each round. While the database does not answer, the last one stays, and says so."""

    name = "top"
    on_end: Callable[[], None]

    def __init__(self, app: Stepwell, interval: float, show: Callable[[Snapshot, str | None], None]) -> None:
        self._app = app
        self._interval = interval
        self._show = show
        self._last: Snapshot | None = None

    def open(self) -> None:
        self._last = take_snapshot(self._app)  # an error of the first look ends the command

    def round(self, wakes: Collection[Wake]) -> float:
        problem = None
        try:
            self._last = take_snapshot(self._app)
        except DatabaseUnavailable as error:
            problem = str(error)
        assert self._last is not None
        try:
            self._show(self._last, problem)
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read the output is gone
            self.on_end()
        return self._interval
