"""Several transactions as one: what a thread begins while it is inside of another one is nested in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from stepwell.model.errors import StepwellError
from stepwell.store.transaction import Transaction

T = TypeVar("T")


class Together(threading.local):
    """The transaction that this thread is inside of, and what is called after its commit."""

    def __init__(self) -> None:
        self.tx: Transaction | None = None
        self.afterwards: list[Callable[[], object]] = []

    @contextmanager
    def inside(self, tx: Transaction) -> Iterator[None]:
        self.tx, self.afterwards = tx, []  # a repetition after a conflict begins anew
        try:
            yield
        finally:
            self.tx = None

    def nested(self, tx: Transaction, work: Callable[[Transaction], T], *, write: bool) -> T:
        """What `work` has written is undone if it raises an error of Stepwell; the whole continues."""
        if not write:
            return work(tx)
        known = len(self.afterwards)
        try:
            with tx.undone_if((StepwellError,)):
                result = work(tx)
                tx.finalize()
        except StepwellError:
            del self.afterwards[known:]
            raise
        return result
