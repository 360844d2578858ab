"""The crew of a command that runs until it is stopped."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from stepwell.service.crew import Crew
from stepwell.service.part import Part


def crew_of(parts: Sequence[Part], *, stopping: str) -> Crew:
    """Prints `stopping` on SIGINT or SIGTERM.

    What is loaded by now stays for the life of the process, and full garbage collections need not look at it: each of
    them would hold up every thread (measured: 13 ms).
    """
    gc.freeze()

    def announce() -> None:
        # Not through the stream: the code that the signal interrupted may be writing to it.
        with suppress(OSError, ValueError):
            os.write(sys.stdout.fileno(), f"{stopping}\n".encode())

    return Crew(parts, on_signal=announce)
