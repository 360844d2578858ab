"""Creating steps: check, place, write, and mark what the new steps affect, in one transaction."""

from __future__ import annotations

from stepwell.enqueue.create.creator import Creator

__all__ = ["Creator"]
