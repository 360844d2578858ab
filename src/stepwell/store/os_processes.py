"""Other processes of this machine, as its operating system shows them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from stepwell.model.redaction import redacted

LONGEST_COMMAND: Final = 80


def is_stopped(pid: int) -> bool:
    """Whether a process is suspended (SIGSTOP, Ctrl-Z): it does nothing, so it does not count as alive."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        state = stat.read_text().rpartition(")")[2].split()[0]
    except OSError:
        shown = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)
        state = shown.stdout.strip()[:1]
    return state in ("T", "t")


def command_of(pid: int) -> str:
    """The beginning of its command, on one line, for people; empty where it cannot be read."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    shown = " ".join(Path(word).name if word.startswith("/") else word for word in words)
    shown = "".join(letter if letter.isprintable() else " " for letter in redacted(shown))
    shown = " ".join(shown.split())
    return shown if len(shown) <= LONGEST_COMMAND else f"{shown[:LONGEST_COMMAND]}…"
