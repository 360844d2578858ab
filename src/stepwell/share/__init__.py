"""Sharing: which actions get the free slots, how many steps may run at once, and how a step's work is partitioned."""

from stepwell.share.ranges import Condition, HashRange, Partition, UniqueId, hash_of, register_md5
from stepwell.share.strategies import DivideTotalValueEqually, SortByDateCreated, Strategy, Weight, safe_grants

__all__ = [
    "Strategy",
    "Weight",
    "SortByDateCreated",
    "DivideTotalValueEqually",
    "safe_grants",
    "HashRange",
    "UniqueId",
    "Partition",
    "Condition",
    "hash_of",
    "register_md5",
]
