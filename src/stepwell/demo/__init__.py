"""`stepwell demo`: the jobs of a small shop, run in a few seconds by the real engine on a real database."""

from __future__ import annotations

from stepwell.demo.play import play
from stepwell.demo.story import Story

__all__ = ["Story", "play"]
