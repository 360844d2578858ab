"""Another transaction was in the way."""

from __future__ import annotations


class Conflict(Exception):
    """Running the whole transaction again is safe and usually succeeds."""
