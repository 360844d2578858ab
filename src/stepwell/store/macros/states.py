"""The sets of states and reasons that statements compare with, from the model: `state IN @unfinished`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from stepwell.model.reasons import CASCADED, ENDED_WITH_PARENT
from stepwell.model.states import CONCLUDED, FAILED, RETRIABLE, TROUBLE, UNFINISHED, State
from stepwell.store.macros.macro import Macros


def _listed(values: Collection[str]) -> str:
    return "({})".format(", ".join(f"'{value}'" for value in values))


def _in_order(states: Collection[State]) -> list[State]:
    return [state for state in State if state in states]


MACROS: Final[Macros] = {
    "unfinished": _listed(_in_order(UNFINISHED)),
    "concluded": _listed(_in_order(CONCLUDED)),
    "failed": _listed(_in_order(FAILED)),
    "retriable": _listed(_in_order(RETRIABLE)),
    "troubled": _listed(_in_order(TROUBLE)),
    "ended_with_parent": _listed(ENDED_WITH_PARENT),
    "cascaded": _listed(CASCADED),
}
