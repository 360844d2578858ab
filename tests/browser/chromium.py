"""A Chromium to test with: one that is installed, else playwright's own download, else Debian's package."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, BrowserType, Error

ARGUMENTS: Final = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Another installation on the machine may hold apt's locks.
_APT: Final = ("apt-get", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3")


class NoChromium(Exception):
    """There is none, and none could be installed."""


def launch(kind: BrowserType) -> Browser:
    """Start it; raises `NoChromium` with what was tried.

    One process of the test run at a time: a second one waits for what the first installs, and does not start a browser
    that is only half unpacked.
    """
    with open(Path(tempfile.gettempdir()) / "chromium.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _launch(kind)


def _launch(kind: BrowserType) -> Browser:
    tried: list[str] = []
    for attempt in (_installed, _own, _downloaded, _packaged):
        try:
            path = attempt()
        except (OSError, subprocess.SubprocessError) as error:
            said = (getattr(error, "stderr", None) or b"").decode(errors="replace").splitlines()
            reason = next((line.strip() for line in said if "Error" in line), error)
            tried.append(f"{attempt.__name__.strip('_')}: {reason}")
            continue
        if path is None:
            tried.append(f"{attempt.__name__.strip('_')}: none")
            continue
        try:
            return kind.launch(executable_path=path or None, args=ARGUMENTS)
        except Error as error:
            tried.append(f"{attempt.__name__.strip('_')}: {error.message.splitlines()[0]}")
    raise NoChromium("the tests in a browser need a Chromium; tried: " + "; ".join(tried))


def _installed() -> str | None:
    return next((path for name in _NAMES if (path := shutil.which(name)) is not None), None)


def _own() -> str | None:
    return ""  # what playwright has downloaded before


def _downloaded() -> str | None:
    subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True, capture_output=True,
                   timeout=300)  # fmt: skip
    return ""


def _packaged() -> str | None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    install = [*_APT, "install", "-y", "--no-install-recommends", "chromium"]
    subprocess.run([*_APT, "update"], check=False, capture_output=True, timeout=300)
    subprocess.run(install, check=True, capture_output=True, timeout=600)
    return _installed()
