"""A PostgreSQL server for one test that can be crashed, and proxies that drop or silence connections."""

from __future__ import annotations

import os
import random
import re
import select
import shutil
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, quote, urlsplit

from tests.postgres_server import SETTINGS, _program_directories, _server_user, _within_reach

PORT_FILE = ".s.PGSQL.5432"


class OwnServer:
    """A context manager that starts the server; `crash` stops it like a power failure, `start` recovers it."""

    def __enter__(self) -> Self:
        # Not a folder of pytest: PostgreSQL does not run as root, and other users cannot enter those.
        self._folder = Path(tempfile.mkdtemp(prefix="stepwell-own-"))
        self._user = _server_user()
        if self._user is not None:
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        self._programs = _within_reach(_program_directories()[0], self._folder)
        self._data = self._folder / "data"
        try:
            self._run(
                "initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"
            )
            with open(self._data / "postgresql.conf", "a") as file:
                file.write(SETTINGS.format(directory=self._folder))
            self.start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self.url = f"postgresql://postgres@/postgres?host={quote(str(self._folder), safe='')}&port=5432"
        return self

    def start(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-l", self._folder / "log", "-w", "start")

    def crash(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(subprocess.CalledProcessError):  # it may have been crashed
            self.crash()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str | Path) -> None:
        user = self._user
        subprocess.run(
            [self._programs / program, *arguments],
            check=True,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=user and user.pw_uid,
            group=user and user.pw_gid,
            extra_groups=None if user is None else [],
        )


COMMIT = b"COMMIT\0"
# Outside of a transaction, the statement that creates one step commits by itself.
CREATES_ONE_STEP = b"WITH rotation AS"
READY = b"Z\0\0\0\5"  # the server is ready for the next command; one letter follows: I outside of a transaction
NO_TRANSACTION = READY + b"I"
# A statement is prepared once, with a name and its text; from then on only its name is sent.
PREPARE = re.compile(rb"P.{4}(_pg3_\d+)\0([^\0]*)\0", re.DOTALL)
EXECUTE = re.compile(rb"B.{4}\0(_pg3_\d+)\0", re.DOTALL)


class LossyProxy:
    """A proxy between a program and PostgreSQL that drops a connection at a commit.

    `lose` selects the next commit of a transaction that contains some text, `lose_at_random` a number of all commits.
    Dropped `before`, the commit never arrives; dropped `after`, it succeeds but its response is lost.
    """

    def __init__(self, url: str) -> None:
        query = parse_qs(urlsplit(url).query)
        self._server = str(Path(query["host"][0]) / PORT_FILE)
        self._folder = tempfile.mkdtemp(prefix="stepwell-proxy-")
        self.url = url.replace(quote(query["host"][0], safe=""), quote(self._folder, safe=""))
        assert self.url != url
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(Path(self._folder) / PORT_FILE))
        self._listener.listen()
        self._lock = threading.Lock()
        self._words: tuple[bytes, str] | None = None
        self._rng = random.Random()
        self._left = 0
        self._stops = False
        self.drops = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, words: bytes, when: str) -> None:
        """Drop the connection at the next commit of a transaction with this text; `when` is before or after."""
        with self._lock:
            self._words = (words, when)

    def lose_at_random(self, seed: int, times: int) -> None:
        """Drop the connection at one commit in four, until that has happened this many times."""
        with self._lock:
            self._rng, self._left = random.Random(seed), times

    @property
    def has_dropped(self) -> bool:
        return self._words is None

    def close(self) -> None:
        self._stops = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        sent = b""
        in_transaction = False
        prepared: dict[bytes, bytes] = {}
        with client, server, suppress(OSError):
            server.connect(self._server)
            while True:
                for file in select.select([client, server], [], [])[0]:
                    chunk = file.recv(1 << 16)
                    if not chunk:
                        return
                    if file is server:
                        if chunk[-6:-1] == READY:
                            in_transaction = not chunk.endswith(NO_TRANSACTION)
                        client.sendall(chunk)
                        continue
                    prepared |= dict(PREPARE.findall(chunk))
                    statements = chunk + b"".join(prepared.get(name, b"") for name in EXECUTE.findall(chunk))
                    sent += statements
                    if COMMIT in statements or (CREATES_ONE_STEP in statements and not in_transaction):
                        when = self._when_to_drop(sent)
                        sent = b""
                        if when == "after":
                            server.sendall(chunk)
                            response = b""
                            while NO_TRANSACTION not in response:
                                response += server.recv(1 << 16)
                        if when:
                            return
                    server.sendall(chunk)

    def _when_to_drop(self, sent: bytes) -> str | None:
        with self._lock:
            if self._words is not None and self._words[0] in sent:
                (_, when), self._words = self._words, None
                self.drops += 1
                return when
            if self._left and self._rng.random() < 1 / 4:
                self.drops += 1
                self._left -= 1
                return self._rng.choice(["before", "after"])
        return None


class SilentProxy(LossyProxy):
    """A proxy whose connections can go silent: they stay open, and nothing arrives on either side any more."""

    def __init__(self, url: str) -> None:
        self._silences = 0
        super().__init__(url)

    def silence(self) -> None:
        """Swallow everything that is sent on the connections of this moment; later ones work."""
        self._silences += 1

    def _serve(self, client: socket.socket) -> None:
        opened_at = self._silences
        server = socket.socket(socket.AF_UNIX)
        with client, server, suppress(OSError):
            server.connect(self._server)
            while True:
                for file in select.select([client, server], [], [])[0]:
                    chunk = file.recv(1 << 16)
                    if not chunk:
                        return
                    if self._silences == opened_at:
                        (client if file is server else server).sendall(chunk)
