"""The keys of `steps.decision`: what a tick found out about a step of a declared workflow before it could run."""

from __future__ import annotations

from typing import Final

WHEN: Final = "when"  # its condition: what was wanted and what was found, by path
SKIPPED_INPUT: Final = "skipped"  # the upstream step without whose result it cannot run
# Of a gate. A time is ISO text.
OPENED_AT: Final = "opened_at"
EXPIRES_AT: Final = "expires_at"
REFUSED_ANSWER: Final = "refused"  # the last answer by plain SQL that did not match: answered_by, answered_at, why
