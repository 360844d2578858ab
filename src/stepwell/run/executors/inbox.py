"""Messages from a child, read without blocking.

A child can die or be suspended in the middle of a message, and a process that it forked may keep the pipe open: reading
until the message is complete could block forever.
"""

from __future__ import annotations

import os
import select
import struct
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from stepwell.run.ending import Ending

_CHUNK: Final = 1 << 16
_SHORT: Final = struct.Struct("!i")  # the framing of `multiprocessing.connection`: a length, or -1 and a long length
_LONG: Final = struct.Struct("!Q")


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message from a child. One struct for all kinds, because it is decoded after every step."""

    kind: Literal["ready", "broken", "ended", "progress", "log", "record", "checkpoint", "related"]
    number: int = 0
    ending: Ending | None = None
    error: str = ""
    done: float = 0.0
    total: float | None = None
    level: str = ""
    text: str = ""
    data: str = ""
    stage: str = ""
    response: str = ""
    children: list[dict[str, Any]] = []
    of: int | None = None


_decoder: Final = msgspec.msgpack.Decoder(Message)


class Inbox:
    """Assembles messages from what has arrived."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._buffer = bytearray()
        self._poll = select.poll()
        self._poll.register(file, select.POLLIN)

    def messages(self) -> Iterator[Message]:
        """The complete messages; raises EOFError after the last one if the pipe is closed."""
        while self._poll.poll(0):
            chunk = os.read(self._file, _CHUNK)
            if not chunk:
                raise EOFError
            self._buffer += chunk
            yield from self._complete()

    def _complete(self) -> Iterator[Message]:
        end = 0  # of the decoded messages: they are removed from the buffer at once
        try:
            while len(self._buffer) >= end + _SHORT.size:
                start, (length,) = end + _SHORT.size, _SHORT.unpack_from(self._buffer, end)
                if length == -1:
                    start += _LONG.size
                    if len(self._buffer) < start:
                        return
                    (length,) = _LONG.unpack_from(self._buffer, start - _LONG.size)
                if len(self._buffer) < start + length:
                    return
                end = start + length
                yield _decoder.decode(self._buffer[start:end])
        finally:
            del self._buffer[:end]
