"""Signing a browser in: by the one-time code in the fragment of a link, or by a token that is typed in.

A fragment is not sent to any server, so the code is in no log. A small script posts it and gets the cookie.
"""

from __future__ import annotations

from html import escape
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from stepwell.web.guard.access import SESSION_SECONDS
from stepwell.web.guard.failures import Failures
from stepwell.web.own_address import own_address
from stepwell.web.problems import HttpProblem
from stepwell.web.sessions import Sessions
from stepwell.web.site import Site, form_of, visitor_of

_DASHBOARD: Final = "/step-dispatcher"
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in · Stepwell</title><link rel="icon" href="data:,"><link rel="stylesheet" href="{base}/login.css">
<script src="{base}/login.js" defer></script></head>
<body><main><h1>Stepwell</h1>
<p id="message">Open the link that <code>stepwell web</code> printed, or enter a token.</p>
<form method="post" action="{base}/login"><input type="hidden" name="next" value="{next}">
<label>Token <input name="token" type="password" required
autocomplete="current-password"></label> <button>Sign in</button></form></main></body></html>
"""
_SCRIPT: Final = """// Exchanges the one-time code in the address for a cookie.
const address = document.currentScript.src.replace(/login\\.js$/, "login");

async function signIn() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  const answer = await fetch(address, { method: "POST", body: new URLSearchParams({ code }), redirect: "manual" });
  if (answer.type === "opaqueredirect" || answer.ok) location.replace("./");
  else document.getElementById("message").textContent =
    "This link was used before, or has expired. Restart the server for a new one, or enter a token.";
}

addEventListener("hashchange", signIn); // the link was opened in a tab that shows this page already
signIn();
"""


_STYLE: Final = """:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; color: light-dark(#111827, #e8ecf6);
  background: linear-gradient(135deg, light-dark(#e8ecf6, #0b1020), light-dark(#f3e8ff, #2e1065)) fixed }
main { max-width: 26rem; margin: 1rem; padding: 2rem; border-radius: 1rem; background: light-dark(#ffffffe0, #161d33) }
input, button { font: inherit; padding: .5rem .75rem; border-radius: .5rem; border: 1px solid #94a3b8 }
input { width: 100%; box-sizing: border-box; margin: .25rem 0 1rem }
button { background: #4338ca; color: #fff; border-color: #4338ca }
"""


class _Credentials(msgspec.Struct):
    token: str = ""
    code: str = ""


def sign_in_page(root: str, wanted: str = "") -> Response:
    """The page that a browser gets which has not signed in; `wanted` is the address below `root` that it asked for."""
    next = wanted.removeprefix(_DASHBOARD) if wanted.startswith(f"{_DASHBOARD}/") else ""
    page = _PAGE.format(base=escape(f"{root}{_DASHBOARD}"), next=escape(next))
    return Response(page, 401, media_type="text/html")


def login_routes(site: Site, sessions: Sessions, failures: Failures) -> list[BaseRoute]:
    """Relative to `/step-dispatcher`."""

    async def page(request: Request) -> Response:
        response = sign_in_page(request.scope["root_path"].removesuffix("/step-dispatcher"))
        response.status_code = 200
        return response

    async def script(request: Request) -> Response:
        return Response(_SCRIPT, media_type="text/javascript")

    async def style(request: Request) -> Response:
        return Response(_STYLE, media_type="text/css")

    async def sign_in(request: Request) -> Response:
        address = request.client.host if request.client else ""
        given = _Credentials(**{key: value for key, value in form_of(request).items() if key in ("token", "code")})
        visitor = site.access.use_code(given.code) if given.code else site.access.by_token(given.token)
        if visitor is None:
            failures.add_or_refuse(address)
            raise HttpProblem(401, "the code or token is not valid", "a code works once, and for ten minutes")
        to = own_address(form_of(request).get("next", "")) or "/"
        response = RedirectResponse(f"{request.scope['root_path']}{to}", 303)
        response.set_cookie(
            site.access.cookie,
            site.access.new_cookie(visitor),
            max_age=SESSION_SECONDS,
            path=request.scope["root_path"].removesuffix("/step-dispatcher") or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return response

    async def sign_out(request: Request) -> Response:
        session = visitor_of(request).session
        if session:
            await sessions.end(session)
        response = RedirectResponse(f"{request.scope['root_path']}/login", 303)
        response.delete_cookie(
            site.access.cookie, path=request.scope["root_path"].removesuffix("/step-dispatcher") or "/"
        )
        return response

    return [
        Route("/login", page, methods=["GET"]),
        Route("/login", sign_in, methods=["POST"]),
        Route("/login.js", script, methods=["GET"]),
        Route("/login.css", style, methods=["GET"]),
        Route("/logout", sign_out, methods=["POST"]),
    ]
