"""The crew of a command: it answers the first signal with a line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from stepwell.service.crew import Crew
from stepwell.service.part import Part


def crew_of(parts: Sequence[Part], *, stopping: str) -> Crew:
    """Says `stopping` when SIGINT or SIGTERM comes."""

    def say_so() -> None:
        # Past the stream: in a signal handler, it may be in use by the very code that was interrupted.
        with suppress(OSError, ValueError):
            os.write(sys.stdout.fileno(), f"{stopping}\n".encode())

    return Crew(parts, on_signal=say_so)
