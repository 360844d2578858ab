"""The crew of a command: it prints a line on the first signal."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from stepwell.service.crew import Crew
from stepwell.service.part import Part


def crew_of(parts: Sequence[Part], *, stopping: str) -> Crew:
    """Prints `stopping` on SIGINT or SIGTERM."""

    def announce() -> None:
        # Not through the stream: the code that the signal interrupted may be writing to it.
        with suppress(OSError, ValueError):
            os.write(sys.stdout.fileno(), f"{stopping}\n".encode())

    return Crew(parts, on_signal=announce)
