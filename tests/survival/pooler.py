"""pgbouncer for the tests: the installed one, else Debian's package, unpacked into the cache without installing it."""

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
# libc6 must match the loader of the machine; every other library is taken from the release of the package.
_LIBRARY: Final = re.compile(r"\blib(?!c6\b)[a-z0-9.+-]+")


class NoPooler(Exception):
    """pgbouncer is neither installed nor downloadable."""


@dataclass(frozen=True)
class Program:
    path: str
    environment: dict[str, str] = field(default_factory=dict)


def pgbouncer(cache: Path, folder: Path) -> Program:
    """The program to start. It is copied to `folder`, because the server's user cannot read the cache."""
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
    except NoPooler:  # container images often have no package lists
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
        raise NoPooler(f"{' '.join(command)} failed: {error.stderr.strip()}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoPooler(f"{os.path.basename(command[0])} cannot be run: {error}") from error
    return done.stdout
