"""A Chromium is found or installed, or the tests say what was tried: they are never skipped silently."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, cast

import pytest
from playwright.sync_api import BrowserType, Error

from tests.browser import chromium


class Browsers:
    """In the place of playwright's: those that exist can be launched; None is playwright's own."""

    def __init__(self, *exist: str | None) -> None:
        self.exist = set(exist)

    def launch(self, executable_path: str | None, args: list[str]) -> Any:
        if executable_path not in self.exist:
            raise Error("Executable doesn't exist\nand more")
        return f"launched {executable_path or 'its own'}"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Where no download and no package can be had; what was run is written down."""
    ran: list[str] = []

    def run(command: list[str], *, check: bool, **options: Any) -> None:
        ran.append(" ".join(command))
        if check:
            raise subprocess.CalledProcessError(1, command, stderr=b"Error: refused\n")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    return ran


def launch(browsers: Browsers) -> Any:
    return chromium.launch(cast("BrowserType", browsers))


def test_an_installed_one_is_used_and_nothing_is_run(machine: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert launch(Browsers("/usr/bin/chromium")) == "launched /usr/bin/chromium"
    assert machine == []


def test_one_that_playwright_has_downloaded_before_is_used(machine: list[str]) -> None:
    assert launch(Browsers(None)) == "launched its own"
    assert machine == []


def test_where_the_download_is_refused_the_package_is_installed(
    machine: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], *, check: bool, **options: Any) -> None:
        machine.append(" ".join(command))
        if "playwright" in command:
            raise subprocess.CalledProcessError(1, command, stderr=b"Error: refused\n")
        if "install" in command:
            monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")

    monkeypatch.setattr(subprocess, "run", run)
    assert launch(Browsers("/usr/bin/chromium")) == "launched /usr/bin/chromium"
    download, update, install = machine
    assert download.endswith("-m playwright install chromium")
    assert update.startswith("apt-get")
    assert install.endswith("install -y --no-install-recommends chromium")


def test_where_there_is_none_the_tests_say_what_was_tried(machine: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(chromium.NoChromium) as failed:
        launch(Browsers())
    assert str(failed.value) == (
        "the tests in a browser need a Chromium; tried: installed: none; own: Executable doesn't exist; "
        "downloaded: Error: refused; packaged: Error: refused"
    )
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(chromium.NoChromium, match="packaged: none"):
        launch(Browsers())
