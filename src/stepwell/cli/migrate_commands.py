"""The schema: `migrate`."""

from __future__ import annotations

import click

from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import to_json


@click.command()
@database_option
@json_option
@click.pass_obj
def migrate(target: Target, as_json: bool) -> None:
    """Create the schema in an empty database, or upgrade it. Running it again changes nothing."""
    from stepwell.model.clock import SystemClock
    from stepwell.store import migrate as migrations
    from stepwell.store import open_database

    target.refuse_unusable()
    database = open_database(target.url, SystemClock())
    try:
        applied = migrations.migrate(database)
        version = len(migrations.known_migrations(database.dialect))
    finally:
        database.close()
    if as_json:
        names = [{"version": migration.version, "name": migration.name} for migration in applied]
        click.echo(to_json({"version": version, "applied": names}))
        return
    for migration in applied:
        click.echo(f"applied {migration.version:04} {migration.name}")
    click.echo(f"{target} is at schema version {version}{'' if applied else '; already up to date'}.")
