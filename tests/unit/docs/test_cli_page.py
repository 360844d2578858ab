"""docs/cli.md has every command, with the line that `--help` shows and an example that the program understands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from stepwell.cli import COMMANDS, main
from stepwell.cli.target import Target
from stepwell.service.config import load_config
from tests.unit.cli.support import run_bare

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([a-z -]+)` \| (.+?) \| (?:`stepwell (.+)`)? ?\|$", re.MULTILINE)
EXAMPLES = [example for _, _, example in ROW.findall(PAGE) if example]


def commands() -> Iterator[tuple[str, str, str]]:
    """Heading, command and line, also of the commands of groups."""
    root = click.Context(main)
    for heading, section in COMMANDS.items():
        for name, (_, line) in section.items():
            yield heading, name, line
            command = main.get_command(root, name)
            if isinstance(command, click.Group):
                for sub in command.list_commands(root):
                    found = command.get_command(root, sub)
                    assert found is not None
                    yield heading, f"{name} {sub}", found.get_short_help_str(80)


def test_the_page_has_every_command_under_its_heading_with_its_line() -> None:
    shown = [
        (section.partition("\n")[0], name, line)
        for section in PAGE.split("\n## ")[1:]
        for name, line, _ in ROW.findall(section)
    ]
    assert shown == list(commands())


def test_every_command_has_an_example_unless_its_own_commands_have() -> None:
    groups = {name.split()[0] for _, name, _ in commands() if " " in name}
    assert [name for name, _, example in ROW.findall(PAGE) if not example and name not in groups] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_program_understands_every_example(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.yaml").touch()
    context = click.Context(main, obj=Target(load_config()))
    group: click.Command = main
    words = shlex.split(example)
    while isinstance(group, click.Group):
        name = words.pop(0)
        found = group.get_command(context, name)
        assert found is not None, f"no command {name}"
        if isinstance(found, click.Group):
            group = found
            continue
        with found.make_context(name, words, parent=context):
            return


def test_no_line_of_a_group_is_cut_in_its_help() -> None:
    for group in {name.split()[0] for _, name, _ in commands() if " " in name}:
        _, listed = run_bare(group, "--help").stdout.split("Commands:\n")
        assert "..." not in listed, group
