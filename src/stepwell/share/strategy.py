"""The strategy protocol: a strategy decides how many steps of each action one claim takes.

It does not use the database. It gets the number of waiting steps per action and returns how many of each to take;
within an action the oldest step always goes first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar, Final, Literal, Protocol, TypeAlias

# Floats are taken at their exact binary value: 0.1 is a little more than a tenth.
Weight: TypeAlias = int | float | Decimal | Fraction
Order: TypeAlias = Literal["by age", "by weight"]

DEFAULT_WEIGHT: Final = 1
# High-priority steps come first, but one slot in this many (with fewer slots: one claim in this many) goes to the
# others while any of them waits, so that high-priority steps cannot starve them. The statement `pick` repeats it.
NORMAL_SHARE: Final = 8

NONE: Final[Mapping[str, int]] = MappingProxyType({})


class Strategy(Protocol):
    """Divides the free slots among actions. Subclass it and implement `grants`.

    `order` is the order in which the steps of one claim start: by age, or interleaved by weight. It matters because
    steps claimed ahead of free slots may start much later.
    """

    order: ClassVar[Order] = "by age"

    def for_worker(self, slots: int) -> Strategy | None:
        """The strategy for a worker with this many slots: this one, or one with its own state; None: oldest first."""
        return self

    def recall(self, memory: str | None, now: float) -> None:
        """Before a claim of slots that all workers share because of a limit: what `remember` returned after the last
        one, whichever worker made it (None: nothing), and the time in seconds.
        """
        return

    def remember(self) -> str | None:
        """After such a claim: what to keep in the database, in the transaction of the claim; None: nothing."""
        return None

    @abstractmethod
    def grants(
        self, slots: int, waiting: Mapping[str, int], weights: Mapping[str, Weight], running: Mapping[str, int]
    ) -> Mapping[str, int] | None:
        """How many steps of each action to take, or None: take the oldest, whatever they are.

        `running` is the number of slots that each action occupies already (none if missing). An action missing in
        `weights` has weight 1.
        """
        ...
