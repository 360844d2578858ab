"""The app of `test_prefetch`: each slot imports it by its name. A file records what ran."""

from __future__ import annotations

import os
import signal
import sqlite3
import struct
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from stepwell import Stepwell, current_step


def define(app: Stepwell) -> Stepwell:
    app.job(name="act")(act)
    return app


def act(diary: str, deed: str = "", padding: str = "") -> str | None:
    note(diary)
    match deed:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "wait" | "wait more":
            while not Path(f"{diary}.{'go' if deed == 'wait' else 'more'}").exists():
                time.sleep(0.001)
        case "nonsense":
            line: Any = current_step()._channel
            os.write(line._connection.fileno(), struct.pack("!i", 4) + b"\xc1\xc1\xc1\xc1")
        case "checkpoint":
            current_step().checkpoint("kept")
        case "checkpoint in its own way":
            with closing(sqlite3.connect(Path(diary).with_name("steps.db"), isolation_level=None)) as mine:
                mine.execute("BEGIN IMMEDIATE")
                current_step().checkpoint("kept")
    return deed or None


def note(diary: str) -> None:
    file = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{current_step().label}\n".encode())
    os.close(file)


app = define(Stepwell("sqlite://"))  # the slots' own: what they have to say goes through the pipe
