"""How long a step of an action usually runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from stepwell.app import Stepwell

_RECENT: Final = timedelta(hours=1)


def usual(app: Stepwell, action: str) -> tuple[float, float] | None:
    """How long runs of this action took: the highest median and 95th percentile of the last hour's minutes."""
    minutes = [minute for minute in app.figures.minutes(_RECENT, action=action) if minute.run_p95 is not None]
    if not minutes:
        return None
    return max(minute.run_p50 or 0.0 for minute in minutes), max(minute.run_p95 or 0.0 for minute in minutes)
