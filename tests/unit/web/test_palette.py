"""Signs and colours: readable on every surface, and told apart without colour."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Final

import pytest

from stepwell.look import palette
from stepwell.look.palette import Look, contrast
from stepwell.model.states import State

READABLE = 4.5  # WCAG AA for text
DISTINCT = 8.0  # ΔE2000: well beyond what one notices side by side

Colour = tuple[float, float, float]
Matrix = tuple[Colour, Colour, Colour]

# Linear RGB as it is seen with no working cones of one kind (Machado, Oliveira and Fernandes, 2009, severity 1).
SIGHT: Final[dict[str, Matrix]] = {
    "all colours": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}
# States between which a wrong reading costs something: good and bad, waiting and moving, own code and children.
PAIRS: Final = (
    (palette.FAILED, palette.COMPLETED),
    (palette.FAILED, palette.RUNNING),
    (palette.FAILED, palette.PENDING),
    (palette.FAILED, palette.SKIPPED),
    (palette.FAILED, palette.NOT_RUNNABLE),
    (palette.RUNNING, palette.CHILD_RUNNING),
    (palette.RUNNING, palette.DISPATCHED),
    (palette.RUNNING, palette.PENDING),
    (palette.PENDING, palette.THROTTLED),
    (palette.PENDING, palette.COMPLETED),
    (palette.COMPLETED, palette.SKIPPED),
    (palette.COMPLETED, palette.CANCELLED),
    (palette.COMPLETED, palette.STOPPED),
    (palette.THROTTLED, palette.RUNNING),
)


@pytest.mark.parametrize("look", palette.ALL, ids=lambda look: look.key)
def test_a_colour_is_readable_on_every_surface(look: Look) -> None:
    assert min(contrast(look.dark, surface) for surface in palette.DARK_SURFACES) >= READABLE
    assert min(contrast(look.light, surface) for surface in palette.LIGHT_SURFACES) >= READABLE


def test_text_is_readable_on_every_surface() -> None:
    for texts, surfaces in (
        (palette.DARK_TEXT, palette.DARK_SURFACES),
        (palette.LIGHT_TEXT, palette.LIGHT_SURFACES),
    ):
        assert min(contrast(text, surface) for text in texts.values() for surface in surfaces) >= READABLE


def test_states_differ_by_sign_and_word_and_not_by_colour_alone() -> None:
    for one, other in combinations(palette.ALL, 2):
        assert one.sign != other.sign
        assert one.word != other.word
        assert (one.dark, one.light) != (other.dark, other.light)


def test_every_state_has_a_look_and_a_style_on_a_terminal() -> None:
    assert set(palette.OF_STATE) == set(palette.STYLES) == set(palette.SIGNS) == set(State)
    assert palette.STYLES[State.RUNNING] == "bold cyan"


def test_the_style_sheet_has_a_variable_and_a_class_for_every_look() -> None:
    css = palette.css()
    for look in palette.ALL:
        assert css.count(f"--s-{look.key}: {look.dark};") == 2  # chosen, and by the system's preference
        assert css.count(f"--s-{look.key}: {look.light};") == 1
        assert f".s-{look.key} {{ --c: var(--s-{look.key}); }}" in css


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].key} and {pair[1].key}")
def test_colours_of_states_that_must_not_be_confused_are_distinct(pair: tuple[Look, Look], sight: str) -> None:
    one, other = pair
    for theme, colours in (("dark", (one.dark, other.dark)), ("light", (one.light, other.light))):
        assert _difference(*(_lab(colour, SIGHT[sight]) for colour in colours)) >= DISTINCT, theme


def test_the_difference_of_colours_is_that_of_the_published_examples() -> None:
    # From the data set of Sharma, Wu and Dalal, 2005.
    assert round(_difference((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485)), 4) == 2.0425
    assert round(_difference((50.0, 2.5, 0.0), (56.0, -27.0, -3.0)), 4) == 31.9030
    assert round(_difference((50.0, 2.5, 0.0), (58.0, 24.0, 15.0)), 4) == 19.4535
    assert round(_difference((50.0, 2.5, 0.0), (73.0, 25.0, -18.0)), 4) == 27.1492


def _lab(colour: str, sight: Matrix) -> Colour:
    """A colour as it is seen, in CIELAB under D65."""
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    red, green, blue = (min(max(_dot(row, linear), 0.0), 1.0) for row in sight)
    x = (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047
    y = 0.2126729 * red + 0.7151522 * green + 0.0721750 * blue
    z = (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883
    fx, fy, fz = (math.cbrt(t) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def _dot(row: Colour, values: list[float]) -> float:
    return sum(weight * value for weight, value in zip(row, values, strict=True))


def _difference(one: Colour, other: Colour) -> float:
    """CIEDE2000 of two colours in CIELAB, with all weights 1."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = 0.5 * (1 - math.sqrt(mean**7 / (mean**7 + 25.0**7)))
    c1, c2 = math.hypot((1 + g) * a1, b1), math.hypot((1 + g) * a2, b2)
    h1, h2 = (math.degrees(math.atan2(b, (1 + g) * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    hue = h1 + turn / 2 if c1 * c2 else h1 + h2
    lightness, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    t = (
        1
        - 0.17 * math.cos(math.radians(hue - 30))
        + 0.24 * math.cos(math.radians(2 * hue))
        + 0.32 * math.cos(math.radians(3 * hue + 6))
        - 0.20 * math.cos(math.radians(4 * hue - 63))
    )
    dl = (l2 - l1) / (1 + 0.015 * (lightness - 50) ** 2 / math.sqrt(20 + (lightness - 50) ** 2))
    dc = (c2 - c1) / (1 + 0.045 * chroma)
    dh = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2)) / (1 + 0.015 * chroma * t)
    rotation = -2 * math.sqrt(chroma**7 / (chroma**7 + 25.0**7))
    rotation *= math.sin(math.radians(60 * math.exp(-((((hue % 360) - 275) / 25) ** 2))))
    return math.sqrt(dl**2 + dc**2 + dh**2 + rotation * dc * dh)
