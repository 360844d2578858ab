"""Why a SQLite file cannot be used: SQLite itself says no more than "unable to open database file"."""

from __future__ import annotations

import os
import pwd
from pathlib import Path


def reason(path: Path) -> str:
    """What is in the way of this process, and what to do about it."""
    folder = path.parent
    user = _user()
    if path.is_dir():
        return f"{path} is a directory: name a file in it"
    if not folder.exists():
        return f"the directory {folder} does not exist: create it; does the URL have the right number of slashes?"
    if path.exists() and not os.access(path, os.R_OK):
        return f"user {user} may not read the file: change its owner or mode"
    if path.exists() and not os.access(path, os.W_OK):
        return f"the file is read-only for user {user}: change its owner or mode"
    if not os.access(folder, os.W_OK | os.X_OK):
        return (
            f"the directory {folder} is read-only for user {user}, and SQLite creates files beside the database "
            "(-wal, -shm): change its owner or mode, or move the database"
        )
    return "check its disk and that no other program is changing it"


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run under a number that has no name
        return str(os.geteuid())
