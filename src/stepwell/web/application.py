"""The ASGI application: the API, the dashboard, health and metrics over one app, behind one guard."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import Receive, Scope, Send

from stepwell.app import Stepwell
from stepwell.web.api.routes import api_routes
from stepwell.web.guard.access import Access, Token
from stepwell.web.guard.guard import Guard
from stepwell.web.guard.hosts import Hosts
from stepwell.web.health import health_routes
from stepwell.web.login import login_routes, sign_in_page
from stepwell.web.metrics import metrics_route
from stepwell.web.refusals import refusal_page
from stepwell.web.screens.routes import routes as screen_routes
from stepwell.web.seed import seed_routes
from stepwell.web.sessions import Sessions
from stepwell.web.site import READ_SECONDS, Site
from stepwell.web.visitor import Recognise


class Application:
    """What `application` returns: an ASGI app, with its `site`."""

    def __init__(self, site: Site, hosts: Hosts, recognise: Recognise | None = None) -> None:
        self.site = site
        self._sessions = Sessions(site)
        router = Router(redirect_slashes=False)
        self._guard = Guard(
            router,
            site.access,
            hosts,
            recognise=recognise,
            read_only=site.read_only,
            has_ended=self._sessions.has_ended,
            sign_in_page=sign_in_page,
            refusal_page=refusal_page,
        )
        router.routes.extend(self._routes())
        self.router = router

    def _routes(self) -> list[BaseRoute]:
        site = self.site
        below = [*login_routes(site, self._sessions, self._guard.failures), *seed_routes(site), *screen_routes(site)]
        return [
            Route("/", _to_dashboard, methods=["GET"]),
            _mounted("/api/v1", api_routes(site, self._sessions.has_ended)),
            _mounted("/health", health_routes(site)),
            metrics_route(site),
            Route("/step-dispatcher", _to_dashboard, methods=["GET"]),
            _mounted("/step-dispatcher", below),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guard(scope, receive, send)

    def sign_in_path(self, name: str) -> str:
        """A path that signs a browser in once, as this person: the code is in the fragment, which is never sent."""
        return f"/step-dispatcher/login#code={self.site.access.new_code(name)}"


def _mounted(path: str, routes: list[BaseRoute]) -> Mount:
    return Mount(path, app=Router(routes, redirect_slashes=False))


async def _to_dashboard(request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}/step-dispatcher/", 307)


def application(
    app: Stepwell,
    *,
    token: str | None = None,
    tokens: Iterable[Token] = (),
    recognise: Recognise | None = None,
    read_only: bool = False,
    hosts: Hosts | Collection[str] = (),
    read_seconds: float = READ_SECONDS,
) -> Application:
    """The dashboard and the API of an app, to serve or to mount.

    It is closed unless it knows how to recognise visitors: `token` is one with all rights, `tokens` have names and
    roles, and `recognise` asks the program that it is mounted in (see `Visitor`). `hosts` are the names under which it
    can be called besides those of this machine.
    """
    known = [*tokens, *([] if token is None else [Token(token)])]
    site = Site(app=app, access=Access(known), read_only=read_only, read_seconds=read_seconds)
    return Application(site, hosts if isinstance(hosts, Hosts) else Hosts(hosts), recognise)
