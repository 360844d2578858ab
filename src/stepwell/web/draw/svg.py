"""SVG as text: every attribute and every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from markupsafe import Markup, escape

Value: TypeAlias = str | int | float | None


def number(value: float) -> str:
    """Short and exact enough for a screen.

    >>> number(3.0), number(2.34567)
    ('3', '2.35')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def element(name: str, *content: Markup | str, **attributes: Value) -> Markup:
    """One element. `class_` is the attribute `class`, `data_key` is `data-key`; None leaves an attribute out.

    >>> print(element("text", "a < b", x=1.50, class_="label", data_key='"'))
    <text x="1.5" class="label" data-key="&#34;">a &lt; b</text>
    """
    written = Markup("").join(
        Markup(' {}="{}"').format(
            key.rstrip("_").replace("_", "-"), number(value) if isinstance(value, int | float) else value
        )
        for key, value in attributes.items()
        if value is not None
    )
    inside = Markup("").join(escape(part) for part in content)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), written, inside)


def drawing(
    width: float,
    height: float,
    parts: Iterable[Markup],
    *,
    label: str,
    class_: str,
    scaled: bool = False,
    role: str = "img",
    **more: Value,
) -> Markup:
    """A whole drawing with a name for screen readers; one with links has the role `group`.

    `scaled`: one unit is one pixel.
    """
    return element(
        "svg",
        element("title", label),
        *parts,
        width=width if scaled else None,
        height=height if scaled else None,
        viewBox=f"0 0 {number(width)} {number(height)}",
        role=role,
        aria_label=label,
        class_=class_,
        **more,
    )
