"""The dashboard and the HTTP API: `web`, and the part of `up` that serves them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stepwell.cli.errors import Misuse
from stepwell.cli.logs import log_options, start_log
from stepwell.cli.parameters import os_user
from stepwell.cli.settings import setting_option
from stepwell.cli.target import Target, database_option

if TYPE_CHECKING:
    from stepwell import Stepwell
    from stepwell.service.config import Config
    from stepwell.web.server import WebPart

F = TypeVar("F", bound=Callable[..., Any])


def web_part(app: Stepwell, config: Config, options: dict[str, Any], *, or_any_port: bool = False) -> WebPart:
    """The server, bound to its port. Refuses an address that others can reach without a token."""
    from stepwell.web import Token, application
    from stepwell.web.guard.hosts import Hosts, is_loopback
    from stepwell.web.server import WebPart
    from stepwell.web.tokens import read_tokens

    host, read_only = options["host"], options["read_only"]
    file: Path | None = options["token_file"]
    tokens = [] if file is None else read_tokens(file)
    if config.web.token is not None:
        tokens.append(Token(config.web.token, "admin"))
    if not tokens:
        if not is_loopback(host):
            raise Misuse(
                f"{host} can be reached by others, and there is no token, so nothing is served: set STEPWELL_WEB_TOKEN "
                "or --token-file, or listen on 127.0.0.1"
            )
        tokens.append(Token.generated(os_user()))
    part = WebPart(application(app, tokens=tokens, read_only=read_only, hosts=Hosts.of_server(host, options["hosts"])))
    part.listen_on(host, options["port"], or_any=or_any_port)
    return part


def announce_web(part: WebPart, *, read_only: bool) -> None:
    """The link with its one-time code. It is printed, never logged."""
    click.echo(f"Dashboard: {part.url}{part.application.sign_in_path(os_user())}")
    click.echo(f"The link works once, for ten minutes{'; this server is read-only' if read_only else ''}.")


@click.command()
@setting_option("--host", "web.host", metavar="ADDRESS", show_default=True, help="The address to listen on.")
@setting_option("--port", "web.port", metavar="PORT", show_default=True, help="The port; 0: any free one.")
@setting_option("--token-file", "web.token_file", metavar="FILE", help="Tokens: NAME ROLE TOKEN in each line.")
@setting_option("--allow-host", "web.hosts", metavar="A,B", help="Other host names that clients may use.")
@click.option("--read-only", is_flag=True, help="Refuse everything that changes something.")
@click.option("--app", "app_name", metavar="MODULE:NAME", help="The app, to start its workflows and check arguments.")
@log_options
@database_option
@click.pass_obj
def web(
    target: Target, /, host: str, port: int, token_file: Path | None, allow_host: tuple[str, ...], read_only: bool,
    app_name: str | None, **log: Any,
) -> None:  # fmt: skip
    """Serve the dashboard and the HTTP API until stopped (Ctrl-C, SIGTERM).

    On 127.0.0.1 it prints a link that signs one browser in. Any other address needs a token: STEPWELL_WEB_TOKEN, or
    --token-file. Programs send it as `Authorization: Bearer TOKEN`.
    """
    from stepwell.cli.apps import load_named_app
    from stepwell.cli.crews import crew_of

    start_log(target.config, **log)
    options = {"host": host, "port": port, "token_file": token_file, "hosts": allow_host, "read_only": read_only}
    with target.open() if app_name is None else load_named_app(target, app_name) as app:
        part = web_part(app, target.config, options)
        with crew_of([part, part.operations_part()], stopping="Stopping.") as crew:
            click.echo(f"Serving {target if app_name is None else app_name}. Ctrl-C or SIGTERM stops it.")
            announce_web(part, read_only=read_only)
            crew.run()
    click.echo("Stopped.")
