"""Who did it: the operator's name as history keeps it."""

from __future__ import annotations

from typing import Final

from stepwell.model.errors import ActionRefused

OPERATOR: Final = "operator:"


def actor_of(who: str) -> str:
    """The actor of a person.

    >>> actor_of("alice")
    'operator:alice'
    """
    if not who or not who.isprintable() or len(who) > 200:
        raise ActionRefused("say who you are: 1 to 200 printable characters; every action is on record with a name")
    return who if who.startswith(OPERATOR) else f"{OPERATOR}{who}"


def reason_of(why: str | None) -> str:
    return f"operator: {why}" if why else "operator"
