"""How much a request may send, and how slowly: its body is counted as it arrives, not believed."""

from __future__ import annotations

from typing import Final

import anyio
from starlette.types import Message, Receive

# As large as the largest arguments of a step (`MAX_BYTES` of the codec), with room for the JSON around them.
MAX_BODY: Final = 1_048_576 + 65_536
MAX_PATH: Final = 8_192
MAX_SECONDS: Final = 30.0


class BodyTooLarge(Exception):
    """More than `MAX_BODY` bytes arrived."""


class BodyTooSlow(Exception):
    """The body did not arrive within `MAX_SECONDS`."""


def limited(receive: Receive) -> Receive:
    """Raises `BodyTooLarge` or `BodyTooSlow` in whoever reads the body."""
    size, deadline, is_whole = 0, anyio.current_time() + MAX_SECONDS, False

    async def next_message() -> Message:
        nonlocal size, is_whole
        if is_whole:
            return await receive()
        message: Message | None = None
        with anyio.CancelScope(deadline=deadline):
            message = await receive()
        if message is None:
            raise BodyTooSlow
        is_whole = not message.get("more_body", False)
        size += len(message.get("body", b""))
        if size > MAX_BODY:
            raise BodyTooLarge
        return message

    return next_message


async def whole_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(parts)
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def replayed(body: bytes, receive: Receive) -> Receive:
    """The body again, for the handler; then what else the connection says."""
    is_sent = False

    async def next_message() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message
