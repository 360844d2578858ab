"""Who did it: the operator's name as history keeps it."""

from __future__ import annotations

from typing import Final

from stepwell.model import codec
from stepwell.model.errors import ActionRefused

OPERATOR: Final = "operator:"
MAX_WHY: Final = 500


def actor_of(who: str) -> str:
    """The actor of a person.

    >>> actor_of("alice")
    'operator:alice'
    """
    if not who or not who.isprintable() or len(who) > 200:
        raise ActionRefused("say who you are: 1 to 200 printable characters; every action is on record with a name")
    return who if who.startswith(OPERATOR) else f"{OPERATOR}{who}"


def reason_of(why: str | None) -> str:
    """The reason of an action, as the step and its history keep it.

    >>> reason_of("customer asked"), reason_of(None)
    ('operator: customer asked', 'operator')
    """
    return f"operator: {storable(why)}" if why else "operator"


def storable(why: str | None) -> str | None:
    """What a person wrote, in a form that both databases keep."""
    return codec.clean_text(why, MAX_WHY) if why else None
