"""What a strategy is: it says how many steps of each action one claim takes.

It knows no database. It is given how many steps of each action wait, and answers with a number for each; within an
action the oldest step always goes first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar, Final, Literal, Protocol, TypeAlias

# A float counts as exactly the number that it is: 0.1 is a little more than a tenth.
Priority: TypeAlias = int | float | Decimal | Fraction
Order: TypeAlias = Literal["by age", "by priority"]

DEFAULT_WEIGHT: Final = 1
# Steps of high priority come first, but one slot in this many is for the rest while any waits; where there are fewer
# slots, one turn in this many. So constant urgent work starves nobody. (`pick` in sql/*/tick.sql has the same number.)
NORMAL_SHARE: Final = 8

NONE: Final[Mapping[str, int]] = MappingProxyType({})


class Strategy(Protocol):
    """How the free slots are given out. Inherit from it, and write `grants`.

    `order` is that in which the steps of one claim begin: by age, or every action as often as its priority says,
    because what is claimed ahead of the slots may begin much later.
    """

    order: ClassVar[Order] = "by age"

    def for_worker(self, slots: int) -> Strategy | None:
        """What a worker with this many slots uses: this, or one with a memory of its own; None: the oldest go first."""
        return self

    @abstractmethod
    def grants(
        self, slots: int, waiting: Mapping[str, int], priorities: Mapping[str, Priority], held: Mapping[str, int]
    ) -> Mapping[str, int] | None:
        """How many steps of each action to take, or None: take the oldest, whatever they are.

        `held` is what each action has already, say the slots it runs in; an action missing there has none, and
        one missing in `priorities` has priority 1.
        """
        ...
