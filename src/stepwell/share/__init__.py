"""Sharing out: who gets the free slots, and how a step's work is split."""

from stepwell.share.ranges import Condition, HashRange, Part, UniqueId, hash_of, teach_md5
from stepwell.share.strategies import DivideTotalValueEqually, Priority, SortByDateCreated, Strategy, safely

__all__ = [
    "Strategy",
    "Priority",
    "SortByDateCreated",
    "DivideTotalValueEqually",
    "safely",
    "HashRange",
    "UniqueId",
    "Part",
    "Condition",
    "hash_of",
    "teach_md5",
]
