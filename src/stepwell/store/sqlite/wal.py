"""The used length of SQLite's write-ahead log. The file size is no measure, because the file is overwritten in place.

The log is a header, followed by a frame (a header and a page) per written page (sqlite.org/walformat.html).
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

_LOG_HEADER: Final = struct.Struct(">8xI4x8s8x")  # page size, salt
_PAGE_HEADER: Final = struct.Struct(">8x8s8x")  # salt


def log_of(database: Path) -> Path:
    """The write-ahead log of a database file."""
    return database.with_name(f"{database.name}-wal")


def is_longer_than(pages: int, log: Path) -> bool:
    """Whether more pages were written since the last reset of the log, which gives it a new salt."""
    file = os.open(log, os.O_RDONLY)  # safe to close: SQLite holds no locks on this file
    try:
        header = os.pread(file, _LOG_HEADER.size, 0)
        if len(header) < _LOG_HEADER.size:
            return False
        page_size, salt = _LOG_HEADER.unpack(header)
        page = os.pread(file, _PAGE_HEADER.size, _LOG_HEADER.size + pages * (_PAGE_HEADER.size + page_size))
        return len(page) == _PAGE_HEADER.size and _PAGE_HEADER.unpack(page) == (salt,)
    finally:
        os.close(file)
