"""The command line that shows or does the same as a screen."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any


def command(*words: Any, **options: Any) -> str:
    """A command of `stepwell`. A list gives an option several times; None and empty values are left out.

    >>> command("steps", state=["Failed", "Stopped"], relatable="order:4 2", group=None)
    "stepwell steps --state Failed --state Stopped --relatable 'order:4 2'"
    """
    parts = ["stepwell", *(shlex.quote(str(word)) for word in words if word not in (None, ""))]
    for name, value in options.items():
        values: Iterable[Any] = value if isinstance(value, list | tuple) else [value]
        option = f"--{name.rstrip('_').replace('_', '-')}"
        for each in values:
            if each is True:
                parts.append(option)
            elif each not in (None, "", False):
                parts += [option, shlex.quote(str(each))]
    return " ".join(parts)
