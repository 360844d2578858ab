"""Ids: numbers of rows, and UUIDs of version 7, which sort by creation time, also within one millisecond."""

from __future__ import annotations

import os
import re
import threading
import time
from typing import Final
from uuid import UUID

LARGEST_ID: Final = 2**63 - 1  # what the columns of both databases hold

# The first two bits of the second half are 10: two random bits are left of that digit.
_VARIANT: Final = {f"{digit:x}": "89ab"[digit & 3] for digit in range(16)}


_CANONICAL: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Uuid7Generator:
    """Generates UUIDs, each greater than all before. Thread-safe.

    >>> uuids = Uuid7Generator()
    >>> a, b = uuids.next(), uuids.next()
    >>> a < b, a[14]
    (True, '7')
    """

    __slots__ = ("_last", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> str:
        """A new UUID."""
        return self.many(1)[0]

    def many(self, count: int) -> list[str]:
        """Many new UUIDs, in ascending order.

        >>> several = Uuid7Generator().many(5000)
        >>> several == sorted(set(several))
        True
        """
        # 48 bits of milliseconds and a 12-bit counter, combined in one number that only grows.
        with self._lock:
            first = max(self._last + 1, time.time_ns() // 1_000_000 << 12)
            self._last = first + count - 1
        randoms = os.urandom(8 * count).hex()
        texts = []
        milliseconds, start = -1, ""
        for number, stamp in enumerate(range(first, first + count)):
            if stamp >> 12 != milliseconds:
                milliseconds = stamp >> 12
                start = f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}-7"
            random = randoms[16 * number : 16 * number + 16]
            texts.append(f"{start}{stamp & 0xFFF:03x}-{_VARIANT[random[0]]}{random[1:4]}-{random[4:]}")
        return texts


def canonical_uuid(text: object) -> str | None:
    """A UUID in the form in which it is stored; None if the text is not a UUID.

    >>> canonical_uuid("0190F3A2-7C4E-7000-8000-000000000001"), canonical_uuid("unknown")
    ('0190f3a2-7c4e-7000-8000-000000000001', None)
    """
    if isinstance(text, str) and _CANONICAL.fullmatch(text):
        return text  # nearly always, and five times as fast as what follows
    try:
        return str(UUID(text))  # type: ignore[arg-type]
    except (ValueError, AttributeError, TypeError):
        return None


def uuids_like(beginning: str) -> tuple[str, str] | None:
    """The first and the last UUID that begin like this; None if none can.

    >>> uuids_like("01A1ee72-0c")
    ('01a1ee72-0c00-0000-0000-000000000000', '01a1ee72-0cff-ffff-ffff-ffffffffffff')
    >>> uuids_like("order 7"), uuids_like("")
    (None, None)
    """
    digits = beginning.replace("-", "").lower()
    if not 1 <= len(digits) <= 32 or set(digits) - set("0123456789abcdef"):
        return None
    return str(UUID(digits.ljust(32, "0"))), str(UUID(digits.ljust(32, "f")))
