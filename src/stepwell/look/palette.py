"""Signs and colours of everything that has a state: one table for the dashboard and for the command line.

A sign and a word always accompany the colour. The colours have a contrast of at least 4.5 to each surface that they
appear on, and states that must not be confused differ by a ΔE2000 of at least 8, also for people who see no red or
green; tests calculate both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stepwell.model.states import State
from stepwell.model.workflow_states import WorkflowState


@dataclass(frozen=True, slots=True)
class Look:
    """How one thing looks: its sign, its colour on dark and on light surfaces, its style on a terminal."""

    key: str  # the CSS class `s-key` and the variable `--s-key`
    word: str
    sign: str
    dark: str
    light: str
    terminal: str


PENDING: Final = Look("pending", "Pending", "·", "#fcd34d", "#4e3304", "yellow")
THROTTLED: Final = Look("throttled", "Throttled", "~", "#f97316", "#b33709", "dark_orange")
DISPATCHED: Final = Look("dispatched", "Dispatched", "→", "#77b8f8", "#1e3a8a", "blue")
RUNNING: Final = Look("running", "Running", "▶", "#3ddff5", "#0e7490", "bold cyan")
CHILD_RUNNING: Final = Look("child-running", "Child running", "▷", "#a677f8", "#883be6", "magenta")
COMPLETED: Final = Look("completed", "Completed", "✓", "#6ee7b7", "#047857", "green")
SKIPPED: Final = Look("skipped", "Skipped", "»", "#a1b29a", "#3f5d54", "dim green")
FAILED: Final = Look("failed", "Failed", "✗", "#ff6161", "#ca162e", "bold red")
STOPPED: Final = Look("stopped", "Stopped", "■", "#fb5d86", "#7f1d3f", "red")
CANCELLED: Final = Look("cancelled", "Cancelled", "⊘", "#f472b6", "#a3126a", "bright_magenta")
NOT_RUNNABLE: Final = Look("not-runnable", "NotRunnable", "–", "#94a3b8", "#475569", "bright_black")

ALL: Final = (
    PENDING,
    THROTTLED,
    DISPATCHED,
    RUNNING,
    CHILD_RUNNING,
    COMPLETED,
    SKIPPED,
    FAILED,
    STOPPED,
    CANCELLED,
    NOT_RUNNABLE,
)

BY_KEY: Final[dict[str, Look]] = {look.key: look for look in ALL}
OF_STATE: Final[dict[State, Look]] = {
    State.PENDING: PENDING,
    State.DISPATCHED: DISPATCHED,
    State.RUNNING: RUNNING,
    State.COMPLETED: COMPLETED,
    State.SKIPPED: SKIPPED,
    State.FAILED: FAILED,
    State.STOPPED: STOPPED,
    State.CANCELLED: CANCELLED,
    State.NOT_RUNNABLE: NOT_RUNNABLE,
}
OF_WORKFLOW_STATE: Final[dict[WorkflowState, Look]] = {
    WorkflowState.PENDING: PENDING,
    WorkflowState.IN_PROGRESS: RUNNING,
    WorkflowState.COMPLETE: COMPLETED,
    WorkflowState.ERROR: FAILED,
    WorkflowState.CANCELLED: CANCELLED,
    WorkflowState.RESOLVED_MANUALLY: SKIPPED,
}
# What executions of schedules, rows of the slot ledger and operations look like.
OF_OUTCOME: Final[dict[str, Look]] = {
    "PENDING": PENDING,
    "RUNNING": RUNNING,
    "SUCCESS": COMPLETED,
    "FAILED": FAILED,
    "SKIPPED": SKIPPED,
    "TIMEOUT": STOPPED,
    "fired": COMPLETED,
    "running": RUNNING,
    "done": COMPLETED,
    "skipped": SKIPPED,
}

STYLES: Final[dict[State, str]] = {state: look.terminal for state, look in OF_STATE.items()}
SIGNS: Final[dict[State, str]] = {state: look.sign for state, look in OF_STATE.items()}
WORKFLOW_STYLES: Final[dict[WorkflowState, str]] = {state: look.terminal for state, look in OF_WORKFLOW_STATE.items()}

# What text stands on: the page, a card, a raised element.
DARK_SURFACES: Final = ("#0b1020", "#161d33", "#1e2744")
LIGHT_SURFACES: Final = ("#ffffff", "#f4f6fb", "#e8ecf6")
DARK_TEXT: Final = {"text": "#e7ecf8", "muted": "#a9b4cc", "accent": "#93b4ff", "warn": "#fbbf24"}
LIGHT_TEXT: Final = {"text": "#131a2c", "muted": "#4a5570", "accent": "#2546b8", "warn": "#8a4b00"}


def css() -> str:
    """The variables of the style sheets, for both themes, and one class per look."""
    dark, light = _variables(dark=True), _variables(dark=False)
    classes = "\n".join(f".s-{look.key} {{ --c: var(--s-{look.key}); }}" for look in ALL)
    return (
        f":root {{\n{light}}}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme='light']) {{\n{dark}}} }}\n"
        f":root[data-theme='dark'] {{\n{dark}}}\n{classes}\n"
    )


def _variables(*, dark: bool) -> str:
    surfaces, texts = (DARK_SURFACES, DARK_TEXT) if dark else (LIGHT_SURFACES, LIGHT_TEXT)
    page, card, raised = surfaces if dark else (surfaces[1], surfaces[0], surfaces[2])
    values = {
        "color-scheme": "dark" if dark else "light",
        "--page": page,
        "--card": card,
        "--raised": raised,
        **{f"--{name}": colour for name, colour in texts.items()},
        **{f"--s-{look.key}": look.dark if dark else look.light for look in ALL},
    }
    return "".join(f"  {name}: {value};\n" for name, value in values.items())


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG defines it, from 1 to 21.

    >>> round(contrast("#000000", "#ffffff"), 1)
    21.0
    """
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    def linear(channel: int) -> float:
        share = channel / 255
        return share / 12.92 if share <= 0.04045 else float(((share + 0.055) / 1.055) ** 2.4)

    red, green, blue = (linear(int(colour[place : place + 2], 16)) for place in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def of_step(state: State, *, is_throttled: bool, own_code_done: bool = False) -> Look:
    """A step that is throttled, or that waits for its children, has a look of its own."""
    if state is State.PENDING and is_throttled:
        return THROTTLED
    if state is State.RUNNING and own_code_done:
        return CHILD_RUNNING
    return OF_STATE[state]
