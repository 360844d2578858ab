"""What comes out of a slot's pipe, message by message, without ever waiting for the rest of one.

A slot can die, or be stopped, in the middle of a message, and what it forked may keep the pipe open: whoever read until
the message is whole would wait for ever.
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


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a slot says: one struct for all of it, because it is read after every step."""

    say: Literal["ready", "broken", "ended", "progress", "log", "record", "checkpoint"]
    number: int = 0
    ending: Ending | None = None
    error: str = ""
    done: float = 0.0
    total: float | None = None
    level: str = ""
    message: str = ""
    data: str = ""
    stage: str = ""
    response: str = ""
    children: list[dict[str, Any]] = []


_decoder: Final = msgspec.msgpack.Decoder(Said)


class Inbox:
    """The messages that have arrived in full."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._held = bytearray()
        self._poll = select.poll()
        self._poll.register(file, select.POLLIN)

    def messages(self) -> Iterator[Said]:
        """All that are there now; raises EOFError after the last one if no other can come."""
        while self._poll.poll(0):
            chunk = os.read(self._file, _CHUNK)
            if not chunk:
                raise EOFError
            self._held += chunk
            yield from self._whole()

    def _whole(self) -> Iterator[Said]:
        end = 0  # of what was read; it is taken away in one go
        try:
            while len(self._held) >= end + _SHORT.size:
                start, (length,) = end + _SHORT.size, _SHORT.unpack_from(self._held, end)
                if length == -1:
                    start += _LONG.size
                    if len(self._held) < start:
                        return
                    (length,) = _LONG.unpack_from(self._held, start - _LONG.size)
                if len(self._held) < start + length:
                    return
                end = start + length
                yield _decoder.decode(self._held[start:end])
        finally:
            del self._held[:end]
