"""How much a request may send: the size of its body is counted as it arrives, not believed."""

from __future__ import annotations

from typing import Final

from starlette.types import Message, Receive

# As large as the largest arguments of a step (`MAX_BYTES` of the codec), with room for the JSON around them.
MAX_BODY: Final = 1_048_576 + 65_536
MAX_PATH: Final = 8_192


class BodyTooLarge(Exception):
    """More than `MAX_BODY` bytes arrived."""


def limited(receive: Receive) -> Receive:
    """Raises `BodyTooLarge` in whoever reads the body."""
    size = 0

    async def next_message() -> Message:
        nonlocal size
        message = await receive()
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
