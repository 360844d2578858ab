"""What a macro is: text, or a function that makes it from the text between the brackets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

SQLITE: Final = "sqlite"
POSTGRES: Final = "postgres"

Macro: TypeAlias = str | Callable[[str], str]
Macros: TypeAlias = Mapping[str, Macro]

PARAMETER: Final = re.compile(r"(:\w+) (\w+)$")


def split(arguments: str) -> list[str]:
    """The arguments of a macro, split at the commas outside brackets and quotes."""
    parts, depth, quoted = [""], 0, False
    for character in arguments:
        quoted ^= character == "'"
        depth += 0 if quoted else {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def parameter(what: str) -> tuple[str, str]:
    found = PARAMETER.match(what)
    assert found is not None, f"expected `:parameter type`, not {what!r}"
    return found[1], found[2]
