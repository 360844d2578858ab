"""Handlers that lose a record rather than stop the program: a full disk, a closed stderr or a reader that is gone."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path


class _LossyHandler(logging.Handler):
    """Counts the records that it could not write, and says so once it can write again."""

    _lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
            if self._lost:
                line = f"{self.format(_about_losses(self._lost))}\n{line}"
            self._write(f"{line}\n")
        except Exception:
            self._lost += 1
        else:
            self._lost = 0

    def _write(self, text: str) -> None:
        raise NotImplementedError


class StderrHandler(_LossyHandler):
    def _write(self, text: str) -> None:
        if sys.stderr is not None:  # it is None if the program was started without one
            sys.stderr.write(text)
            sys.stderr.flush()


class FileHandler(_LossyHandler):
    """Appends to a file, each record with one call, so that several processes can share it.

    A file that was removed or renamed is created again: log rotation needs no signal.
    """

    def __init__(self, path: Path, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self._path = path.absolute()
        self._file: int | None = None

    def open(self) -> None:
        """Create the file now, to find out whether that is possible; otherwise the first record does."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def _write(self, text: str) -> None:
        if self._file is not None and not self._is_current(self._file):
            os.close(self._file)
            self._file = None
        if self._file is None:
            self.open()
        assert self._file is not None
        data = text.encode("utf-8", "backslashreplace")
        if os.write(self._file, data) < len(data):
            raise OSError("the record was only written in part")

    def _is_current(self, file: int) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(file))
        except FileNotFoundError:
            return False


def _about_losses(lost: int) -> logging.LogRecord:
    text = "%d earlier log records could not be written and are lost"
    return logging.LogRecord("stepwell.log", logging.WARNING, __file__, 0, text, (lost,), None)
