"""The error for a conflict with another transaction."""

from __future__ import annotations


class Conflict(Exception):
    """Another transaction was in the way; running this one again is safe and usually succeeds."""


class Suspended(Conflict):
    """This process was suspended inside a transaction for so long that the server has rolled it back."""
