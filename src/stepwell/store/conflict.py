"""The error for a conflict with another transaction."""

from __future__ import annotations


class Conflict(Exception):
    """Another transaction was in the way; running this one again is safe and usually succeeds."""
