"""How long SQLite's write-ahead log is, read from the file itself, which keeps its length when it is written over.

The log is a header, then a header and a page for each page (sqlite.org/walformat.html).
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

_LOG_HEADER: Final = struct.Struct(">8xI4x8s8x")  # size of a page, salt
_PAGE_HEADER: Final = struct.Struct(">8x8s8x")  # salt


def log_of(database: Path) -> Path:
    """The file beside the database."""
    return database.with_name(f"{database.name}-wal")


def is_longer_than(pages: int, log: Path) -> bool:
    """Whether more pages were written since the last checkpoint: the first of them gave the log a new salt."""
    file = os.open(log, os.O_RDONLY)  # SQLite keeps no locks on this one, so closing it here lets go of none
    try:
        header = os.pread(file, _LOG_HEADER.size, 0)
        if len(header) < _LOG_HEADER.size:
            return False
        page_size, salt = _LOG_HEADER.unpack(header)
        page = os.pread(file, _PAGE_HEADER.size, _LOG_HEADER.size + pages * (_PAGE_HEADER.size + page_size))
        return len(page) == _PAGE_HEADER.size and _PAGE_HEADER.unpack(page) == (salt,)
    finally:
        os.close(file)
