"""Numbers, durations and reasons in words, the same for drawings and screens."""

from __future__ import annotations

from stepwell.model.reasons import ENGINE_REASONS


def span(seconds: float) -> str:
    """A duration, rounded.

    >>> span(0.0042), span(2.5), span(119), span(7300), span(400_000)
    ('4 ms', '2.5 s', '119 s', '121 min', '4 d')
    """
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2g} s"
    for limit, unit, size in ((120, "s", 1), (7_500, "min", 60), (172_800, "h", 3_600)):
        if seconds < limit:
            return f"{int(seconds / size)} {unit}"
    return f"{int(seconds / 86_400)} d"


def reason_words(reason: str | None) -> str:
    """A reason of the engine as words; one that a job gave stays as it is.

    >>> reason_words("max_retries_reached"), reason_words("job: see_ticket_12"), reason_words(None)
    ('max retries reached', 'job: see_ticket_12', '')
    """
    return reason.replace("_", " ") if reason in ENGINE_REASONS else reason or ""


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "step"), counted(1200, "step")
    ('1 step', '1,200 steps')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
