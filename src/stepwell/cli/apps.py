"""Loading the app that a command names."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from stepwell.cli.errors import Misuse, warn
from stepwell.cli.target import Target
from stepwell.cli.text import clean
from stepwell.model.error_text import stack_of
from stepwell.model.errors import AppNotFound
from stepwell.model.redaction import shown_url

if TYPE_CHECKING:
    from stepwell import Stepwell


def import_named_app(name: str | None, verbose: bool = False) -> Stepwell:
    """The app that a command names; its database is not touched."""
    from stepwell.service.locate import load_app

    if not name:
        raise Misuse(
            "no app: use --app module:variable, for example --app shop.jobs:app, or set STEPWELL_APP, "
            "or name in section [app] of stepwell.toml"
        )
    sys.path.insert(0, os.getcwd())
    try:
        return load_app(name)
    except AppNotFound as error:
        if error.__cause__ is None:
            raise Misuse(str(error)) from error
        if not verbose:
            raise Misuse(f"{error} (-v shows the traceback)") from error
        click.echo(clean(stack_of(error.__cause__), lines=True).rstrip(), err=True)
        raise Misuse(str(error)) from error


def _refuse_or_warn(target: Target, app_is_elsewhere: str) -> None:
    """An app has its own URL: another one on the command line is refused, and a configured one has no effect."""
    if target.named is not None:
        raise Misuse(f"--db is {target}, but {app_is_elsewhere}: leave --db out")
    origin = target.config.origin("database.url")
    if origin.kind != "default":
        warn(
            f"{app_is_elsewhere}, as its code says; {target} ({origin}) is not used. To have one setting for both, "
            "make the app with the URL of that setting, like os.environ['STEPWELL_DB']"
        )


def load_named_app(target: Target, name: str | None, verbose: bool = False) -> Stepwell:
    """The app that a command names, opened."""
    app = target.configure(import_named_app(name, verbose), declare_queues=True).open()
    if not target.is_on(app.database.url):
        _refuse_or_warn(target, f"{name} is on {shown_url(app.database.url)}")
    if not app.jobs.actions():
        raise Misuse(f"{name} has no jobs; is the module that defines them imported?")
    return app
