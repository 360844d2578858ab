"""Signs and colours: readable on every surface, and told apart without colour."""

from __future__ import annotations

from itertools import combinations

import pytest

from stepwell.look import palette
from stepwell.look.palette import Look, contrast
from stepwell.model.states import State

READABLE = 4.5  # WCAG AA for text


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
