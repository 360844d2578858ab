"""The pace of an operation: at most this many items per second, minute or hour."""

from __future__ import annotations

import re
from typing import Final

from stepwell.model.errors import ActionRefused

_PACE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(s|sec|second|m|min|minute|h|hour)\s*")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600}


def items_per_second(pace: str) -> float:
    """A pace as a number.

    >>> items_per_second("50/minute") * 60
    50.0
    """
    found = _PACE.fullmatch(pace)
    if found is None or float(found[1]) <= 0:
        raise ActionRefused(f"{pace!r} is not a pace; write it as '10/second', '50/minute' or '200/hour'")
    return float(found[1]) / _SECONDS[found[2][0]]


def items_at_once(per_second: float | None, batch: int) -> int:
    """How many items one transaction may take: never more than the pace allows within a second."""
    return batch if per_second is None else max(1, min(batch, int(per_second)))
