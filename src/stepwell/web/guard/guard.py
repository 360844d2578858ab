"""The one layer before all routes: size, host, origin, sign-in, role; and the headers of every response.

The order matters: what costs least and reveals least comes first. Nothing is open unless it is in `OPEN`, and every
method that is not safe is checked, whichever route it leads to.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, quote

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stepwell.web.guard.access import Access
from stepwell.web.guard.bodies import (
    MAX_BODY,
    MAX_PATH,
    MAX_SECONDS,
    BodyTooLarge,
    BodyTooSlow,
    limited,
    replayed,
    whole_body,
)
from stepwell.web.guard.failures import Failures
from stepwell.web.guard.headers import with_headers
from stepwell.web.guard.hosts import Hosts
from stepwell.web.guard.origins import SAFE_METHODS, problem_of_origin
from stepwell.web.problems import HttpProblem, problem_response
from stepwell.web.visitor import Recognise, Role, Visitor

# What may be requested without signing in: whether the process lives, and how to sign in.
LOGIN: Final = "/step-dispatcher/login"
LOGOUT: Final = "/step-dispatcher/logout"
DASHBOARD: Final = "/step-dispatcher/"
STATIC: Final = "/step-dispatcher/static/"  # files of the package, the same for everybody
OPEN: Final = frozenset({"/health/live", "/health/ready", LOGIN, f"{LOGIN}.js", f"{LOGIN}.css"})
_PREFIXES: Final = ("/api/v1/", "/health/", DASHBOARD)
_FORM: Final = "application/x-www-form-urlencoded"
MOST_FIELDS: Final = 20_000  # of a form: every row of a list that was scanned to its end may be ticked
_CSRF_HEADER: Final = "x-csrf-token"
_CSRF_FIELD: Final = "csrf"
HasEnded: TypeAlias = Callable[[str], Awaitable[bool]]
# Of the path that the application is mounted at, and the address below it that was asked for.
SignInPage: TypeAlias = Callable[[str, str], Response]
RefusalPage: TypeAlias = Callable[[str, HttpProblem, str], Response]
_LOGGER: Final = logging.getLogger("stepwell.web")
_MISSES: Final = {404: "there is nothing at this address", 405: "this address does not take that method"}
_TOO_SLOW: Final = f"the request did not arrive within {MAX_SECONDS:g} s"
_TOO_LARGE: Final = f"the request is larger than {MAX_BODY:,} bytes"


class Guard:
    """An ASGI app around another one."""

    def __init__(
        self,
        inner: ASGIApp,
        access: Access,
        hosts: Hosts,
        *,
        recognise: Recognise | None = None,
        read_only: bool = False,
        has_ended: HasEnded | None = None,
        sign_in_page: SignInPage | None = None,
        refusal_page: RefusalPage | None = None,
    ) -> None:
        self._inner = inner
        self._access = access
        self._hosts = hosts
        self._recognise = recognise
        self._read_only = read_only
        self._has_ended = has_ended
        self._sign_in_page = sign_in_page
        self._refusal_page = refusal_page
        self.failures = Failures()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        scope = {**scope, "app": self}  # routers raise what they cannot serve, whatever they are mounted in
        asked = _Asked(
            method=scope["method"],
            path=_path(scope),
            query=scope.get("query_string", b"").decode("latin-1"),
            root=scope.get("root_path", ""),
            headers=Headers(scope=scope),
        )
        request_id = secrets.token_hex(8)
        answer = _Answer(send, request_id)
        try:
            receive = await self._check(scope, asked, limited(receive), request_id)
            await self._inner(scope, receive, answer.send)
        except HttpProblem as problem:
            response = self._refusal(asked, problem, request_id)
            await response(scope, receive, answer.send)
        except HTTPException as error:  # no such route, or not with this method
            if error.status_code == 404 and (to := _without_slash(asked)) is not None:
                await RedirectResponse(to, 307)(scope, receive, answer.send)
                return
            detail = _MISSES.get(error.status_code, error.detail)
            help = "write it without the slash at its end" if _ends_with_slash(asked.path) else ""
            refusal = HttpProblem(error.status_code, detail, help, error.headers)
            await self._refusal(asked, refusal, request_id)(scope, receive, answer.send)
        except BodyTooLarge:
            await self._refusal(asked, HttpProblem(413, _TOO_LARGE), request_id)(scope, receive, answer.send)
        except BodyTooSlow:
            await self._refusal(asked, HttpProblem(408, _TOO_SLOW), request_id)(scope, receive, answer.send)
        except Exception:
            _LOGGER.exception("request %s failed: %s %r", request_id, asked.method, asked.path[:200])
            if answer.has_begun:
                raise
            detail = f"the request failed; the log of the server has the cause under {request_id}"
            await self._refusal(asked, HttpProblem(500, detail), request_id)(scope, receive, answer.send)

    async def _check(self, scope: Scope, asked: _Asked, receive: Receive, request_id: str) -> Receive:
        headers, path, method = asked.headers, asked.path, asked.method
        state: dict[str, Any] = scope.setdefault("state", {})
        state["request_id"] = request_id
        self._check_size(scope, headers)
        self._check_host(headers)
        is_safe, is_open = method in SAFE_METHODS, path in OPEN
        visitor = await self._visitor(scope, headers, path)
        if visitor is None and not is_open:
            raise HttpProblem(
                401,
                "this needs a sign-in",
                "send `Authorization: Bearer TOKEN`, or open the link that the server printed when it started",
                {"WWW-Authenticate": "Bearer"},
            )
        if visitor is not None:
            state["visitor"] = visitor
        if is_safe:
            return receive
        if visitor is None or visitor.via != "token":
            self._check_origin(headers)
        if headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM:
            body = await whole_body(receive)
            state["form"] = _fields(body)
            receive = replayed(body, receive)
        if visitor is not None and path != LOGIN:
            self._check_csrf(visitor, headers, state.get("form", {}))
            if path != LOGOUT:
                self._check_authority(visitor)
        return receive

    def _check_size(self, scope: Scope, headers: Headers) -> None:
        if len(scope["path"]) + len(scope.get("query_string", b"")) > MAX_PATH:
            raise HttpProblem(414, f"the address is longer than {MAX_PATH:,} bytes")
        if "\x00" in scope["path"]:
            raise HttpProblem(400, "the address contains a NUL character, which no stored text has")
        length = headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 12 or int(length) > MAX_BODY):
            raise HttpProblem(413, _TOO_LARGE)

    def _check_host(self, headers: Headers) -> None:
        given = headers.getlist("host")
        if len(given) != 1 or not self._hosts.allow(given[0]):
            raise HttpProblem(
                421,
                "this server does not answer to that host name",
                "name it with --allow-host (in Python: hosts=[…]) if this server should answer to it",
            )

    @staticmethod
    def _check_origin(headers: Headers) -> None:
        problem = problem_of_origin(headers)
        if problem is not None:
            raise HttpProblem(
                403,
                f"the request was refused, because {problem}",
                "a program sends `Authorization: Bearer TOKEN` instead of a cookie",
            )

    async def _visitor(self, scope: Scope, headers: Headers, path: str) -> Visitor | None:
        address = (scope.get("client") or ("", 0))[0]
        authorization = headers.get("authorization")
        if authorization is not None and self._access.has_tokens:
            kind, _, secret = authorization.partition(" ")
            visitor = self._access.by_token(secret.strip()) if kind.lower() == "bearer" else None
            if visitor is None:
                self.failures.add_or_refuse(address)
            return visitor
        if self._recognise is not None:
            found = self._recognise(scope)
            return None if found is None else self._access.with_csrf(found)
        cookies = cookie_parser(headers.get("cookie", ""))
        cookie = cookies.get(self._access.cookie)
        visitor = None if cookie is None else self._access.by_cookie(cookie)
        if visitor is None or self._has_ended is None or path in OPEN or path.startswith(STATIC):
            return visitor
        return None if await self._has_ended(visitor.session) else visitor

    def _check_csrf(self, visitor: Visitor, headers: Headers, form: dict[str, str]) -> None:
        if visitor.via != "token" and not self._access.is_csrf(
            visitor, headers.get(_CSRF_HEADER) or form.get(_CSRF_FIELD, "")
        ):
            raise HttpProblem(403, "the request has no valid cross-site token", "reload the page and try again")

    def _check_authority(self, visitor: Visitor) -> None:
        if self._read_only:
            raise HttpProblem(403, "this server is read-only; nothing changed")
        if not visitor.may(Role.OPERATE):
            raise HttpProblem(403, f"{visitor.name} has the role read, which may change nothing")

    def _refusal(self, asked: _Asked, problem: HttpProblem, request_id: str) -> Response:
        wants_page, is_read = "text/html" in asked.headers.get("accept", ""), asked.method in ("GET", "HEAD")
        if wants_page and is_read and problem.status == 401 and self._sign_in_page is not None:
            return self._sign_in_page(asked.root, asked.address)
        if wants_page and asked.path.startswith(DASHBOARD) and self._refusal_page is not None:
            return self._refusal_page(asked.root, problem, request_id)
        return problem_response(problem.status, problem.detail, problem.help, request_id, problem.headers)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The request as it arrived: routers change the scope."""

    method: str
    path: str  # below `root`
    query: str
    root: str
    headers: Headers

    @property
    def address(self) -> str:
        return f"{self.path}{'?' if self.query else ''}{self.query}"


class _Answer:
    """Adds the headers of every response."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self.has_begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            message = {**message, "headers": with_headers(list(message.get("headers", [])), self._request_id)}
        await self._send(message)


def _path(scope: Scope) -> str:
    """The path below the place where the application is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


def _ends_with_slash(path: str) -> bool:
    return path.endswith("/") and path.startswith(_PREFIXES) and path not in _PREFIXES


def _without_slash(asked: _Asked) -> str | None:
    """The address without the slash at its end; a path, because a proxy may have another scheme."""
    if asked.method not in ("GET", "HEAD") or not _ends_with_slash(asked.path):
        return None
    return f"{asked.root}{quote(asked.path.rstrip('/'))}{'?' if asked.query else ''}{asked.query}"


def _fields(body: bytes) -> dict[str, str]:
    if b"%00" in body or b"\x00" in body:
        raise HttpProblem(400, "the form contains a NUL character, which no stored text has")
    try:
        return dict(
            parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=MOST_FIELDS)
        )
    except ValueError:
        help = "for JSON, send `Content-Type: application/json`"
        raise HttpProblem(400, "the body is not a valid form", help) from None
