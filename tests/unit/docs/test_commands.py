"""Commands that the documentation and the dashboard show: each exists, with its options."""

import re
from pathlib import Path

import click
import pytest

from stepwell.cli import main

ROOT = Path(__file__).parents[3]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "src/stepwell/web/templates").glob("*.html")),
]
COMMAND = re.compile(r"(?:^|[`\"/]|\$ )stepwell ([a-z][^`\n\"#|&<]*)", re.MULTILINE)
OPTION = re.compile(r"(?<!\S)\[?(--[a-z][a-z-]*)")


def _problem(text: str) -> str | None:
    command: click.Command = main
    context, words = click.Context(main), text.split()
    while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z-]+", words[0]):
        found = command.get_command(context, words[0])
        if found is None:
            return f"no command: stepwell {text}"
        command, context, words = found, click.Context(found, parent=context), words[1:]
    known = {name for each in (*command.params, *main.params) for name in (*each.opts, *each.secondary_opts)}
    missing = set(OPTION.findall(" ".join(words))) - known - {"--help"}
    if missing:
        return f"no option {', '.join(sorted(missing))}: stepwell {text}"
    takes_words = isinstance(command, click.Group) or any(isinstance(each, click.Argument) for each in command.params)
    if words and not takes_words and words[0][0] not in "-[":
        return f"takes no argument: stepwell {text}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_shown_exists_with_its_options(page: Path) -> None:
    assert [problem for text in COMMAND.findall(page.read_text()) if (problem := _problem(text.strip()))] == []


@pytest.mark.parametrize("text", ["reset-attempts 4", "enqueue ACTION --args '{}'", "up module:app", "workflows steer"])
def test_a_command_that_does_not_exist_is_found(text: str) -> None:
    assert _problem(text) is not None
