"""A real server in a thread, which a test can stop and start again at the same address."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import uvicorn


class Server:
    def __init__(self, asgi: Any) -> None:
        self._asgi = asgi
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def base(self) -> str:
        return f"http://localhost:{self.port}/step-dispatcher"

    def start(self) -> None:
        config = uvicorn.Config(
            self._asgi, host="127.0.0.1", port=self.port, log_level="error", lifespan="off", ws="none"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="web server", daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            time.sleep(0.01)

    def stop(self) -> None:
        """At once, with the connections that are open."""
        assert self._server is not None
        assert self._thread is not None
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()
