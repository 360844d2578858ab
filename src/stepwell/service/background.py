"""A crew in a thread, for programs that have a main loop of their own, such as a web server."""

from __future__ import annotations

import asyncio
import threading
from typing import Self

from stepwell.service.crew import Crew


class Background:
    """Runs a crew during a `with` or an `async with` block, and stops it gracefully at its end.

    It installs no signal handlers: the program decides when it ends. If a part ends with an error, the others stop, and
    the end of the block raises it.
    """

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="stepwell", daemon=True)

    def _run(self) -> None:
        try:
            self._crew.run()
        except BaseException as error:
            self._error = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._crew.stop()
        self._thread.join()
        if self._error is not None and kind is None:
            raise self._error

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        await asyncio.to_thread(self.__exit__, kind, *error)  # running steps may need the loop to finish
