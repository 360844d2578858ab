"""pgbouncer for the tests: that of the machine, else Debian's package, unpacked beside the tests and not installed."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

WHERE: Final = "usr/sbin/pgbouncer"  # Debian keeps it out of PATH
# libc6 belongs to the loader of the machine; every other library is that of the same release as the package.
_LIBRARY: Final = re.compile(r"\blib(?!c6\b)[a-z0-9.+-]+")


class NoPooler(Exception):
    """pgbouncer is neither on this machine nor to be had."""


@dataclass(frozen=True)
class Program:
    path: str
    environment: dict[str, str] = field(default_factory=dict)


def pgbouncer(cache: Path, folder: Path) -> Program:
    """What to start. A copy from the cache stands in `folder`, for the server's user may not reach the cache."""
    if found := shutil.which("pgbouncer") or shutil.which(f"/{WHERE}"):
        return Program(found)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / "unpacked").exists():
            _fetch(cache)
    shutil.copytree(cache / "unpacked", folder, dirs_exist_ok=True)
    libraries = dict.fromkeys(str(file.parent) for file in folder.rglob("*.so.*"))
    return Program(str(folder / WHERE), {"LD_LIBRARY_PATH": ":".join(libraries)})


def _fetch(cache: Path) -> None:
    for name in ("packages", "being unpacked"):
        shutil.rmtree(cache / name, ignore_errors=True)
        (cache / name).mkdir()
    _download(cache, "pgbouncer")
    (package,) = (cache / "packages").glob("*.deb")
    _download(cache, *_LIBRARY.findall(_run("dpkg-deb", "--field", str(package), "Depends")))
    for package in (cache / "packages").glob("*.deb"):
        _run("dpkg-deb", "--extract", str(package), str(cache / "being unpacked"))
    (cache / "being unpacked").rename(cache / "unpacked")


def _download(cache: Path, *packages: str) -> None:
    try:
        _apt(cache, "download", *packages)
    except NoPooler:  # the machine may have no list of packages, as images of containers do
        lists = f"Dir::State::lists={cache / 'lists'}"
        (cache / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        _apt(cache, "-o", lists, "update")
        _apt(cache, "-o", lists, "download", *packages)


def _apt(cache: Path, *words: str) -> None:
    own = ("-q", "-o", "APT::Sandbox::User=", "-o", f"Dir::Cache={cache}")
    _run("apt-get", *own, *words, cwd=cache / "packages")


def _run(*command: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=True)
    except subprocess.CalledProcessError as error:
        raise NoPooler(f"{' '.join(command)} says: {error.stderr.strip()}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoPooler(f"{os.path.basename(command[0])} is of no help: {error}") from error
    return done.stdout
