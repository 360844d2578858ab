"""What `--help` of a group says about each of its commands."""

from __future__ import annotations

from collections.abc import Mapping

import click


def short_lines(group: click.Group, lines: Mapping[str, str]) -> None:
    """Set the lines of these commands; of the others, it is their first sentence."""
    for name, line in lines.items():
        group.commands[name].short_help = line
