"""A file of tokens: `NAME ROLE TOKEN` in each line; `#` begins a comment."""

from __future__ import annotations

import stat
from pathlib import Path

from stepwell.model.errors import ConfigError
from stepwell.web.guard.access import Token
from stepwell.web.visitor import Role


def read_tokens(path: Path) -> list[Token]:
    """The tokens; raises `ConfigError` with every problem. Only its owner may be able to read the file."""
    try:
        mode, text = path.stat().st_mode, path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"{path}: others can read or write this file of tokens: `chmod 600 {path}`")
    found: list[Token] = []
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            name, role, secret = words
            found.append(Token(secret, name, Role.of(role)))
        except ValueError as error:
            reason = "expected NAME ROLE TOKEN" if len(words) != 3 else str(error)
            problems.append(f"{path}:{number}: {reason}")
    if problems or not found:
        raise ConfigError(*(problems or [f"{path}: has no token; write NAME ROLE TOKEN in each line"]))
    return found
