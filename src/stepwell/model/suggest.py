"""Names that are unknown, with the name that was probably meant."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Iterable
from typing import Final

from stepwell.model.errors import StepwellError

# A name that is accepted but probably misspelt is a warning here. The commands print these warnings.
LOGGER: Final = logging.getLogger("stepwell.names")


def near(word: object, valid: Iterable[str]) -> str | None:
    """The valid name that is spelt like this one.

    >>> near("retires", ["queue", "retries"]), near("Failed ", ["Failed"]), near("x", ["queue"])
    ('retries', 'Failed', None)
    """
    by_fold = {name.casefold(): name for name in valid}
    found = difflib.get_close_matches(str(word).strip().casefold(), list(by_fold), n=1)
    return by_fold[found[0]] if found else None


def hint(word: object, valid: Collection[str], what: str) -> str:
    """The rest of an error message about an unknown name.

    >>> hint("bogus", ["Failed", "Stopped"], "states"), hint("faild", ["Failed", "Stopped"], "states")
    ('valid states: Failed, Stopped', 'did you mean Failed?')
    """
    found = near(word, valid)
    return f"valid {what}: {', '.join(valid)}" if found is None else f"did you mean {found}?"


def refuse_unknown(where: str, given: Iterable[str], valid: Collection[str], what: str = "setting") -> None:
    """Refuse names that are not among the valid ones.

    >>> refuse_unknown("worker", ["slot"], ["slots", "queues"])
    Traceback (most recent call last):
    ...
    stepwell.model.errors.StepwellError: worker: unknown setting 'slot'; did you mean slots?
    """
    if unknown := [name for name in given if name not in valid]:
        found = "; ".join(f"unknown {what} {name!r}; {hint(name, sorted(valid), f'{what}s')}" for name in unknown)
        raise StepwellError(f"{where}: {found}")


def warn_of_new_group(group: str, known: Collection[str]) -> None:
    """A group is created with its first step; one that is spelt almost like another is probably a mistake."""
    if group not in known and (meant := near(group, known)) is not None:
        LOGGER.warning("new group %r is created by its first step; did you mean %s?", group, meant)


def warn_of_unknown_group(group: str, known: Collection[str], who: str) -> None:
    if group not in known:
        meant = hint(group, sorted(known), "groups")
        LOGGER.warning("unknown group %r: %s has nothing to do until it has a step; %s", group, who, meant)


def warn_of_unknown_queue(queue: str, known: Collection[str], then: str) -> None:
    if queue not in known:
        LOGGER.warning("unknown queue %r: %s; %s", queue, then, hint(queue, sorted(known), "queues"))


def warn_of_unknown_action(action: str, known: Collection[str]) -> None:
    """No worker has recorded such a job. One will, perhaps; a name that is spelt almost like another is a mistake."""
    if action not in known and (meant := near(action, known)) is not None:
        LOGGER.warning("no worker has recorded a job %r; did you mean %s?", action, meant)
