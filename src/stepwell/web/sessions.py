"""Sessions of browsers: a cookie is valid by its signature, unless the session in it was ended by signing out."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Final

from stepwell.model.errors import StepwellError
from stepwell.operate.sessions import end_session, has_ended
from stepwell.web.api.errors import problem_of
from stepwell.web.guard.access import SESSION_SECONDS
from stepwell.web.site import Site

# A page asks for a dozen files at once. Another process notices within this time that a session was ended here.
CHECKED_SECONDS: Final = 1.0
MOST_CHECKED: Final = 1_000


class Sessions:
    """Which sessions were ended: a table, because any number of processes may serve the same browsers."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._open: dict[str, float] = {}  # until when a session counts as open
        self._ended: set[str] = set()  # in this process

    async def has_ended(self, id: str) -> bool:
        """Raises a problem if the database does not answer: it is not known then."""
        if id in self._ended:
            return True
        now = time.monotonic()
        if self._open.get(id, 0.0) > now:
            return False
        try:
            ended = await self._site.read(has_ended, self._site.app.database, id)
        except StepwellError as error:
            raise problem_of(error) from error
        if not ended:
            if len(self._open) >= MOST_CHECKED:
                self._open.clear()
            self._open[id] = now + CHECKED_SECONDS
        return ended

    async def end(self, id: str) -> None:
        try:
            await self._site.act(self._end, id)
        except StepwellError as error:
            raise problem_of(error) from error
        self._ended.add(id)

    def _end(self, id: str) -> None:
        now = datetime.now(UTC)
        end_session(self._site.app.database, id, now=now, ends_at=now + timedelta(seconds=SESSION_SECONDS))
