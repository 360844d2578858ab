"""The web server, as a part of a crew: it listens until it is stopped, and ends with the others."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn

from stepwell.model.errors import StepwellError
from stepwell.service.part import Part
from stepwell.store import Wake
from stepwell.web.application import Application
from stepwell.web.slow import PromptRequests

HOST: Final = "127.0.0.1"
PORT: Final = 7837  # STEP on the keys of a telephone
# What an open connection gets to end after a stop: an answer takes at most the two seconds of its reads.
GRACE_SECONDS: Final = 3
# Connections at once; a browser keeps six open.
MOST_CONNECTIONS: Final = 500

_LOGGER: Final = logging.getLogger("stepwell.web")


class CannotListen(StepwellError):
    """The address or port cannot be used."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The crew handles signals."""
        yield


class WebPart(Part):
    """Serves an application. `listen_on` binds the port, before the crew starts, so that its link can be printed."""

    name = "web"

    def __init__(self, application: Application) -> None:
        self.application = application
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._is_stopping = False
        self.url = ""

    def listen_on(self, host: str, port: int, *, or_any: bool = False) -> None:
        """Bind the port; with `or_any`, another one if it is in use."""
        try:
            self._socket = _bound(host, port)
        except OSError as error:
            if not or_any:
                raise CannotListen(
                    f"cannot listen on {host}:{port} ({error.strerror}); choose another --port, 0 for any free one"
                ) from error
            self._socket = _bound(host, 0)
        number = self._socket.getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{number}"

    def operations_part(self) -> Part:
        """Executes the operations that visitors start: for the same crew."""
        return self.application.site.operations.beside_server()

    def round(self, wakes: Collection[Wake]) -> float:
        """Serves until it is stopped."""
        if self._is_stopping or self._socket is None:
            return 0.0
        config = uvicorn.Config(
            self.application,
            http=PromptRequests,
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="off",
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        self._server = server = _Server(config)
        server.should_exit = self._is_stopping
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(server.serve([self._socket.dup()]))
        return 0.0

    def stop(self, *, at_once: bool = False) -> None:
        self._is_stopping = True
        self.application.site.stopping.set()
        if self._server is not None:
            self._server.should_exit = True
            self._server.force_exit = at_once

    def close(self) -> None:
        self.application.site.operations.close()
        if self._socket is not None:
            self._socket.close()


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(128)
    except OSError:
        made.close()
        raise
    return made
