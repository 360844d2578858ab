"""What is wrong with a definition, and where."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: in a key of a step, in a key of the workflow itself (no step), or somewhere in it."""

    message: str
    step: str = ""
    key: str = ""  # as Python calls it
    shows_key: bool = False  # the message does not name the key: YAML calls some of them otherwise
    at: int = 0  # the line of the step, in a file

    def text(self, key: str = "") -> str:
        """The message, with the name of the step and, where it helps, of the key.

        >>> Problem("unknown step 'b'", "a", "after", shows_key=True).text("depends_on_steps")
        "step 'a': depends_on_steps: unknown step 'b'"
        """
        step = f"step {self.step!r}: " if self.step else ""
        return f"{step}{f'{key or self.key}: ' if self.shows_key else ''}{self.message}"
