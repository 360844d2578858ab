"""A new project: `init`."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Final

import click

from stepwell.cli.errors import Problem
from stepwell.cli.target import DEFAULT_URL, Target, database_option, json_option
from stepwell.cli.text import clean, to_json

_TEMPLATES: Final = Path(__file__).parent / "scaffold"
_URL: Final = f'"{DEFAULT_URL}"'  # as the templates have it
# The file in the project → its template.
FILES: Final = {
    "jobs.py": "jobs.py.template",
    "test_jobs.py": "test_jobs.py.template",
    "stepwell.toml": "stepwell.toml.template",
    "pytest.ini": "pytest.ini.template",
    "README.md": "README.md.template",
    ".gitignore": "gitignore.template",
}


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=".")
@database_option
@json_option
@click.pass_obj
def init(target: Target, directory: Path, as_json: bool) -> None:
    """Create a small project that runs: two jobs, a schedule, a workflow, tests and a configuration.

    With --db, it uses that database instead of a SQLite file. Nothing is overwritten: if one of its files exists,
    nothing is written.
    """
    taken = [name for name in FILES if (directory / name).exists() or (directory / name).is_symlink()]
    if taken:
        raise Problem(
            f"{directory} has {', '.join(taken)} already; nothing was written. Choose another directory, or move them"
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, template in FILES.items():
            with open(directory / name, "x", encoding="utf-8") as file:
                text = (_TEMPLATES / template).read_text(encoding="utf-8")
                file.write(text if target.named is None else text.replace(_URL, json.dumps(target.named)))
    except OSError as error:
        raise Problem(f"cannot write to {directory}: {error}") from error
    if as_json:
        click.echo(to_json({"directory": str(directory), "files": list(FILES)}))
        return
    click.echo(f"Created {', '.join(FILES)} in {clean(directory.resolve())}. Next:")
    if directory.resolve() != Path.cwd():
        click.echo(f"  cd {quote(clean(directory))}")
    click.echo("  stepwell up          # runs the jobs and serves the dashboard, until Ctrl-C")
    click.echo("  python jobs.py       # in another terminal: creates a step and a workflow")
    click.echo("  stepwell steps")
