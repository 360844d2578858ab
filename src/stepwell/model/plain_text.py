"""Text that stays on its line: control characters are escaped, so that data cannot forge a line or steer a terminal."""

from __future__ import annotations


def escaped(text: str) -> str:
    """Text with everything that is not printable escaped: line breaks, ANSI sequences, marks of direction.

    >>> escaped("a\\nb \\x1b[31m \\u2028 caf\\u00e9")
    'a\\\\nb \\\\x1b[31m \\\\u2028 café'
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)
