"""UUIDs of version 7: they sort by creation, also inside one millisecond."""

from __future__ import annotations

import os
import threading
import time

_lock = threading.Lock()
_last = 0


def uuid7() -> str:
    """A new UUID. Later ones of this process are always greater.

    >>> a, b = uuid7(), uuid7()
    >>> a < b, a[14]
    (True, '7')
    """
    global _last
    # 48 bits of milliseconds and 12 bits of a counter, kept as one number that only grows.
    with _lock:
        _last = stamp = max(_last + 1, time.time_ns() // 1_000_000 << 12)
    number = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64 | 0x2 << 62 | _random_62_bits()
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _random_62_bits() -> int:
    return int.from_bytes(os.urandom(8), "big") >> 2
