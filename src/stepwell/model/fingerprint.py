"""The fingerprint of a failure: the same for failures that are alike, whatever numbers, ids and names they mention."""

from __future__ import annotations

import hashlib
import os
import re
import sysconfig
from typing import Final

LENGTH: Final = 16  # hexadecimal digits: among a million causes, two alike are less likely than one in ten million
MAX_MESSAGE: Final = 1_000

_CLASS: Final = re.compile(r"([A-Za-z_][\w.]*)(?:: |$)")
_FRAME: Final = re.compile(r'^ *File "(?P<file>[^"\n]+)", line \d+, in (?P<name>.+)$', re.MULTILINE)
_VARIABLE: Final = (
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    # Not within a word: "it's" and "users'" are no quotes.
    (re.compile(r"(?<!\w)'(?:[^'\\\n]|\\.)*'(?!\w)|\"(?:[^\"\\\n]|\\.)*\"|`[^`\n]*`"), "<text>"),
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b"), "<id>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}\b"), "<id>"),
    (re.compile(r"\b\w*\d+\w*[-_]\w+|\b[A-Za-z]+[-_]\d\w*"), "<id>"),
    (re.compile(r"[-+]?\d+(?:[.,:]\d+)*(?:[eE][-+]?\d+)?"), "<n>"),
    (re.compile(r"\s+"), " "),
)
_NOT_OWN: Final = tuple(
    f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def fingerprint(action: str, error: str | None, stack: str | None = None) -> str:
    """Of a failure of this action, by its error (as `describe` writes it) and its stack (as `stack_of` does).

    >>> one = fingerprint("charge", "CardDeclined: card 'x-1' of order 4711")
    >>> one == fingerprint("charge", "CardDeclined: card 'y-2' of order 4712")
    True
    >>> one == fingerprint("charge", "Timeout: card 'x-1' of order 4711"), len(one)
    (False, 16)
    """
    kind, message = _split(error or "")
    parts = (action, kind, constant_part(message), own_frame(stack or ""))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:LENGTH]


def constant_part(message: str) -> str:
    """A message with numbers, ids and quoted text replaced.

    >>> constant_part("user 42 of 01890a5d-ac96-774b-bcce-b302099a8057: no file '/tmp/a b' after 1.5 s")
    'user <n> of <id>: no file <text> after <n> s'
    """
    text = message[:MAX_MESSAGE]
    for pattern, replacement in _VARIABLE:
        text = pattern.sub(replacement, text)
    return text.strip()


def own_frame(stack: str) -> str:
    """The innermost frame of the user's own code: its file, without folders, and its function. No line: code moves.

    >>> own_frame('  File "/app/jobs.py", line 3, in charge\\n    pay()\\n')
    'jobs.py charge'
    """
    frames = [(found["file"], found["name"]) for found in _FRAME.finditer(stack)]
    own = [frame for frame in frames if _is_own(frame[0])] or frames
    return f"{os.path.basename(own[-1][0])} {own[-1][1]}" if own else ""


def _is_own(file: str) -> bool:
    return not file.startswith((*_NOT_OWN, "<frozen")) and "site-packages" not in file


def _split(error: str) -> tuple[str, str]:
    found = _CLASS.match(error)
    return (found[1], error[found.end() :]) if found else ("", error)
