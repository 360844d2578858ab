"""Where the tests keep their files: in memory, if there is room for them."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
# A run needs less than 1 GB, and others may use it, too; containers often have only 64 MB there.
NEEDED_BYTES: Final = 4 * 2**30


def keep_files_in_memory() -> None:
    """For this process and all that it starts; without room, or where `TMPDIR` is set, nothing changes.

    Nothing that a test writes must outlive the run, so no sync is worth waiting for: in memory there is none, neither
    of SQLite files nor of the 400 files of a PostgreSQL database.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < NEEDED_BYTES:
        return
    folder = Path(tempfile.mkdtemp(prefix="stepwell-files-", dir=MEMORY))
    folder.chmod(0o755)  # for the user of the PostgreSQL server
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))  # what failed keeps its files
    atexit.register(_remove, folder, os.getpid())


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child inherits the exit handler, but not the folder
        shutil.rmtree(folder, ignore_errors=True)
