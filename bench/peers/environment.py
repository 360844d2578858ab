"""A virtual environment for each peer, made when it is first needed."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.peers.catalogue import Entry

ROOT: Final = Path(__file__).parents[2]
PLACE: Final = ROOT / ".bench" / "peers"
# A slow mirror may take minutes for DBOS and Celery; longer than this, it hangs.
SECONDS_TO_INSTALL: Final = 600


class NotInstalled(Exception):
    """A peer that could not be had; the message says why."""


def python_of(entry: Entry) -> Path:
    """The Python of its environment, which is made if it is not there or was made for other requirements."""
    found = _make(entry, PLACE / entry.name)
    if isinstance(found, NotInstalled):
        raise found
    return found


@functools.cache  # what could not be installed for the first figure is not tried again for the others
def _make(entry: Entry, place: Path) -> Path | NotInstalled:
    python, stamp = place / "bin" / "python", place / "installed"
    wanted = "\n".join(entry.requirements)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *entry.requirements]
    try:
        run("make a virtual environment", [sys.executable, "-m", "venv", "--clear", str(place)])
        run(f"install {' '.join(entry.requirements)}", install)
    except NotInstalled as error:
        return error
    stamp.write_text(wanted)
    return python


def run(what: str, command: list[str]) -> None:
    """Run it to its end; if that is a bad one, say what could not be done, and why."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS_TO_INSTALL)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"could not {what} within {SECONDS_TO_INSTALL} s") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip().splitlines()
        raise NotInstalled(f"could not {what}: {said[-1] if said else f'exit {error.returncode}'}") from None
