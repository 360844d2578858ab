"""Where an unfinished step stands on the agenda, as people say it."""

from typing import Final

STATUSES: Final = ("ready", "delayed", "dispatched", "running", "gate", "held", "undecided", "exhausted")
