"""What a peer's module is made of."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final

from bench.load import Ledger

# Read from the environment, because workers want their settings when they import the peer's module.
DATABASE: Final = os.environ.get("BENCH_DATABASE", "")
URL: Final = os.environ.get("BENCH_URL", "")
LEDGER: Final = Ledger(os.environ.get("BENCH_LEDGER", "ledger"))
# Where a peer has one process per worker, as many as can run at once.
PROCESSORS: Final = os.cpu_count() or 1


def mark() -> None:
    """What every job does: note that it ran."""
    LEDGER.mark()


def program(name: str) -> str:
    """A program of the peer's own virtual environment."""
    return str(Path(sys.executable).with_name(name))


class Peer(ABC):
    """One other system."""

    system: ClassVar[str]
    # How it is set up, and where its own documentation says so.
    settings: ClassVar[str]
    # Work that it does not offer, with the reason.
    cannot: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @abstractmethod
    def prepare(self) -> None:
        """Make its tables, open its connections."""

    @abstractmethod
    def workers(self) -> Sequence[Sequence[str]]:
        """The commands that start its workers."""

    @abstractmethod
    def enqueue(self) -> None:
        """One no-op job; on return it is as durable as the system makes it."""

    def enqueue_many(self, count: int) -> None:
        raise NotImplementedError

    def start_chains(self, count: int, length: int) -> None:
        raise NotImplementedError

    def fan_out(self, children: int) -> None:
        """So many no-op jobs, and one that notes that it ran after all of them."""
        raise NotImplementedError
