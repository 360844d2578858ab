"""The runs that were sent to one child: the first is assumed to have started, the others are prefetched.

Before the child starts a run it reads a permit, with the number of the run, from a pipe that both sides can read: each
permit is read by one of the two. A run whose permit the worker reads is withdrawn and never starts.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from ctypes import c_uint64
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Final

from stepwell.model.claimed import Claim
from stepwell.run.executors import PREFETCH_SECONDS
from stepwell.run.executors.pipe import PERMIT, send

# The most that a child may have left unread: more could fill the pipe, and the worker would block on the child.
UNREAD_BYTES: Final = 98_304
UNREAD_MESSAGES: Final = 16


class RunQueue:
    """Runs are numbered in the order in which they start; numbers are not reused."""

    def __init__(self, context: ForkServerContext) -> None:
        self._context = context
        self.cancelled: c_uint64 = context.RawValue(c_uint64, 0)  # the number of the cancelled run, for the child
        self._number = 0
        self.runs: deque[tuple[int, Claim]] = deque()

    def open(self) -> Connection:
        """Open the permit pipe for a new child; returns the child's end. Both stay open here: see `withdraw`."""
        self._permits, self._their_permits = self._context.Pipe()
        os.set_blocking(self._their_permits.fileno(), False)
        self.started_at = 0.0
        self._unsent: dict[int, Claim] = {}
        self._unread: deque[tuple[int, int]] = deque()  # numbers of runs, and the approximate size of their rows
        self._unread_bytes = 0
        self._unread_messages: deque[int] = deque()  # the first number in each
        self._cancelled_ahead: set[int] = set()
        return self._their_permits

    def close(self) -> None:
        """The child is dead."""
        self._permits.close()
        self._their_permits.close()

    @property
    def claim(self) -> Claim | None:
        """The claim of the current run."""
        return self.runs[0][1] if self.runs else None

    def contains(self, claim: Claim) -> bool:
        return any(mine.key == claim.key for _, mine in self.runs)

    def can_prefetch(self, claim: Claim) -> bool:
        """Whether it may wait behind another step. Not with a time limit: its time starts when it is sent."""
        fits = self._unread_bytes + _bytes(claim) <= UNREAD_BYTES and len(self._unread_messages) < UNREAD_MESSAGES
        return fits and not claim.step.timeout

    def is_occupied(self, now: float) -> bool:
        """Whether the current run takes longer than prefetched steps may wait."""
        return bool(self.runs) and now - self.started_at > PREFETCH_SECONDS

    def add(self, claim: Claim, now: float) -> None:
        if not self.runs:
            self.started_at = now
        self._number += 1
        self.runs.append((self._number, claim))
        self._unsent[self._number] = claim
        self._unread.append((self._number, _bytes(claim)))
        self._unread_bytes += self._unread[-1][1]

    def send_added(self, connection: Connection) -> None:
        unsent, self._unsent = self._unsent, {}
        if unsent:
            self._unread_messages.append(next(iter(unsent)))
            with suppress(OSError):  # it has just died: the next collect notices
                # Permits first: a child that waits for one reads nothing else, and a row may be larger than the pipe.
                permits = (PERMIT.pack(number, claim.begin_before) for number, claim in unsent.items())
                os.write(self._permits.fileno(), b"".join(permits))
                send(connection, {"run": {number: claim.step for number, claim in unsent.items()}})

    def advance(self, now: float) -> None:
        """The current run has ended, and the next one starts."""
        number, _ = self.runs.popleft()
        self._cancelled_ahead.discard(number)
        while self._unread and self._unread[0][0] <= number:
            self._unread_bytes -= self._unread.popleft()[1]
        while self._unread_messages and self._unread_messages[0] <= number:
            self._unread_messages.popleft()
        self.started_at = now
        if self.runs and self.runs[0][0] in self._cancelled_ahead:
            self.cancelled.value = self.runs[0][0]

    def request_cancel(self, claim: Claim) -> None:
        """Cancel a run, now or as soon as it starts."""
        for place, (number, mine) in enumerate(self.runs):
            if mine.key == claim.key:
                self._cancelled_ahead.add(number)
                if place == 0:
                    self.cancelled.value = number

    def withdraw(self) -> list[Claim]:
        """Withdraw the runs whose permits the child has not read: they never start."""
        numbers: set[int] = set()
        with suppress(BlockingIOError):
            while True:
                numbers.add(PERMIT.unpack(os.read(self._their_permits.fileno(), PERMIT.size))[0])
        withdrawn = [claim for number, claim in self.runs if number in numbers]
        self.runs = deque(run for run in self.runs if run[0] not in numbers)
        return withdrawn

    def forget(self, claim: Claim) -> None:
        self.runs = deque(run for run in self.runs if run[1].key != claim.key)


def _bytes(claim: Claim) -> int:
    """The approximate size of its row in the pipe."""
    step = claim.step
    return 400 + sum(
        len(text) * (1 if text.isascii() else 4)
        for text in (step.arguments, step.checkpoint, step.response, step.label)
        if text
    )
