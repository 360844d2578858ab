"""Serving screens: one rendering per screen and second, shared by all who ask; conditional answers; errors as pages.

While nothing is committed (SQLite tells without a query), a rendering is kept for as long as the clock changes nothing
on it: most polls are answered by 304 and no statement.

A page and its fragment have the same content. What differs between visitors (the token of their forms) is put in last,
at a mark that nothing else can contain.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Final, TypeAlias

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from stepwell.model.errors import (
    ActionRefused,
    DatabaseUnavailable,
    OperationNotFound,
    StepNotFound,
    StepwellError,
    WorkflowNotFound,
)
from stepwell.schedule.errors import ScheduleNotFound
from stepwell.web.api.errors import problem_of
from stepwell.web.problems import HttpProblem
from stepwell.web.screens.asked import Asked, Form, Redirect, View
from stepwell.web.screens.pulse import Pulse, pulse_of
from stepwell.web.screens.static import version
from stepwell.web.screens.templating import environment
from stepwell.web.site import Site, visitor_of
from stepwell.web.visitor import Role

Screen: TypeAlias = Callable[[Asked], View | Redirect]
Action: TypeAlias = Callable[[Asked, Form, str], str]
Key: TypeAlias = tuple[Any, ...]
Version: TypeAlias = tuple[int, int]
# One second: with polls every two seconds a change is on the screen within three.
SHARED_SECONDS: Final = 1.0
MOST_SHARED: Final = 200
_NOT_FOUND: Final = (StepNotFound, WorkflowNotFound, OperationNotFound, ScheduleNotFound)


@dataclass(frozen=True, slots=True)
class Rendering:
    """A screen as it was rendered."""

    made: float  # by the monotonic clock
    version: Version | None  # of the database, before it was asked
    until: datetime | None  # by the clock of the database: true until then, if the version is the same
    status: int
    body: str
    tag: str

    def is_current(self, version: Version | None, now: datetime) -> bool:
        if time.monotonic() - self.made < SHARED_SECONDS:
            return True
        return version is not None and version == self.version and self.until is not None and now < self.until


@dataclass(frozen=True, slots=True)
class SharedPulse:
    """What all screens show, with when it was read."""

    made: float
    version: Version | None
    pulse: Pulse

    def is_current(self, version: Version | None) -> bool:
        if version is None:
            return time.monotonic() - self.made < SHARED_SECONDS
        return version == self.version


class Pages:
    """Renders the screens of one site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._token_mark = f"token-{secrets.token_hex(16)}"
        self._shared: OrderedDict[Key, Rendering] = OrderedDict()
        self._making: dict[Key, asyncio.Future[Rendering | Redirect]] = {}
        self._lock = Lock()
        self._now_mark = f"now-{secrets.token_hex(16)}"
        self._pulse: SharedPulse | None = None

    def screen(self, screen: Screen) -> Callable[[Request], Any]:
        """An endpoint that shows a screen."""

        async def endpoint(request: Request) -> Response:
            asked, fragment = self._asked(request), "x-stepwell-fragment" in request.headers
            theme = request.cookies.get("stepwell_theme", "")
            theme = theme if theme in ("light", "dark") else ""
            whole = () if fragment else (theme, asked.can_sign_out)
            key = (asked.base, asked.path, asked.query, asked.role, fragment, whole)
            found = self._kept(key, asked.now) or await self._rendered(key, screen, asked, fragment, theme)
            return RedirectResponse(found.to, 303) if isinstance(found, Redirect) else self._answer(request, found)

        return endpoint

    async def _rendered(
        self, key: Key, screen: Screen, asked: Asked, fragment: bool, theme: str
    ) -> Rendering | Redirect:
        """All who ask while it is being rendered wait for the same rendering."""
        making = self._making.get(key)
        if making is None:
            making = asyncio.ensure_future(self._render_and_keep(key, screen, asked, fragment, theme))
            self._making[key] = making
            making.add_done_callback(lambda _: self._making.pop(key, None))
        return await asyncio.shield(making)

    async def _render_and_keep(
        self, key: Key, screen: Screen, asked: Asked, fragment: bool, theme: str
    ) -> Rendering | Redirect:
        made = await self._site.read(self._make, screen, asked, fragment, theme)
        if isinstance(made, Rendering):
            self._keep(key, made)
        return made

    def action(self, action: Action, role: Role = Role.OPERATE) -> Callable[[Request], Any]:
        """An endpoint that does something, and leads to the page that shows it."""

        async def endpoint(request: Request) -> Response:
            asked, form = self._asked(request), await _form(request)
            visitor = visitor_of(request)
            if not asked.may(role):
                message = f"This needs the role {role}; you have {visitor.role}."
                return await self._refusal(request, asked, message, 403)
            try:
                to = await self._site.act(action, asked, form, visitor.name)
            except _NOT_FOUND as error:
                return await self._refusal(request, asked, str(error), 404)
            except DatabaseUnavailable as error:  # it may have been written
                raise problem_of(error) from error
            except (StepwellError, ValueError) as error:
                return await self._refusal(request, asked, str(error), 409 if isinstance(error, ActionRefused) else 400)
            with self._lock:
                self._shared.clear()
                self._pulse = None
            return RedirectResponse(to, 303)

        return endpoint

    # ------------------------------------------------------------------------------------------------------

    def _asked(self, request: Request) -> Asked:
        visitor = visitor_of(request)
        base = request.scope.get("root_path", "").rstrip("/")
        path, query = request.url.path, tuple(request.query_params.multi_items())
        if any("\x00" in text for pair in query for text in pair):
            raise HttpProblem(400, "the address contains a NUL character, which no stored text has")
        return Asked(
            site=self._site,
            base=base,
            path=path.removeprefix(base) or "/",
            params=request.path_params,
            query=query,
            role=visitor.role,
            now=self._site.app.database.now(),
            can_sign_out=bool(visitor.session),
        )

    def _make(self, screen: Screen, asked: Asked, fragment: bool, theme: str) -> Rendering | Redirect:
        version = asked.app.database.data_version()  # before anything is read: what is committed meanwhile makes it old
        try:
            view = screen(asked)
        except _NOT_FOUND as error:
            view = problem_view("Not found", str(error), 404)
        except DatabaseUnavailable as error:
            view = problem_view("The database does not answer", str(error), 503)
        except StepwellError as error:
            view = problem_view("This cannot be shown", str(error), 400)
        if isinstance(view, Redirect):
            return view
        pulse = self._pulse_now(asked, version)
        body = self._render(view, asked, fragment, theme, pulse)
        tag = hashlib.sha256(body.encode()).hexdigest()[:20]
        until = asked.now + timedelta(seconds=view.holds)
        planned_end = pulse.breaker.planned_end
        if planned_end is not None and asked.now < planned_end:
            until = min(until, planned_end)
        is_kept = view.status == 200 and view.holds > 0
        return Rendering(time.monotonic(), version, until if is_kept else None, view.status, body, tag)

    def _render(self, view: View, asked: Asked, fragment: bool, theme: str, pulse: Pulse) -> str:
        template = environment().get_template(view.template)
        return template.render(
            view.data,
            layout="fragment.html" if fragment else "page.html",
            view=view,
            asked=asked,
            link=asked.link,
            here=asked.here,
            now=asked.now,
            now_mark=self._now_mark,
            pulse=pulse,
            csrf=self._token_mark,
            theme=theme if theme in ("light", "dark") else "",
            static=f"{asked.base}/static/{version()}",
            version=self._site.version,
            may_operate=asked.may(Role.OPERATE),
            may_admin=asked.may(Role.ADMIN),
        )

    def _pulse_now(self, asked: Asked, version: Version | None) -> Pulse:
        kept = self._pulse
        if kept is None or not kept.is_current(version):
            kept = self._pulse = SharedPulse(time.monotonic(), version, pulse_of(asked.app))
        return kept.pulse

    def _kept(self, key: Key, now: datetime) -> Rendering | None:
        with self._lock:
            found = self._shared.get(key)
        if found is None:
            return None
        return found if found.is_current(self._site.app.database.data_version(), now) else None

    def _keep(self, key: Key, made: Rendering) -> None:
        with self._lock:
            self._shared[key] = made
            self._shared.move_to_end(key)
            while len(self._shared) > MOST_SHARED:
                self._shared.popitem(last=False)

    def _answer(self, request: Request, found: Rendering) -> Response:
        now, csrf = f"{self._site.app.database.now().timestamp():.3f}", visitor_of(request).csrf
        # Of this visitor: after another sign-in, what the browser has kept contains a token that is refused.
        own = hashlib.sha256(f"{found.tag} {csrf}".encode()).hexdigest()[:20]
        tag = f'"{own}"'
        headers = {
            "ETag": tag,
            "Cache-Control": "private, no-cache",
            "Vary": "X-Stepwell-Fragment, Cookie",
            "X-Stepwell-Now": now,
        }
        if found.status == 200 and tag in _tags(request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=headers)
        body = found.body.replace(self._token_mark, csrf).replace(self._now_mark, now)
        return HTMLResponse(body, found.status, headers=headers)

    async def _refusal(self, request: Request, asked: Asked, message: str, status: int) -> Response:
        view = replace(problem_view("Nothing changed", message, status), live=False)
        found = await self._site.read(
            self._make, lambda _: view, asked, False, request.cookies.get("stepwell_theme", "")
        )
        assert isinstance(found, Rendering)
        body = found.body.replace(self._token_mark, visitor_of(request).csrf)
        return HTMLResponse(body.replace(self._now_mark, f"{asked.now.timestamp():.3f}"), status)


def _tags(header: str) -> list[str]:
    """The tags of `If-None-Match`; a proxy that compresses an answer marks its tag as weak."""
    return [tag.strip().removeprefix("W/") for tag in header.split(",")]


async def _form(request: Request) -> Form:
    body = await request.body()
    if body and not hasattr(request.state, "form"):
        raise HttpProblem(415, "this address takes a form", "send it as `application/x-www-form-urlencoded`")
    return Form.of(body)


def problem_view(title: str, message: str, status: int) -> View:
    return View(
        template="problem.html",
        title=title,
        cli="stepwell doctor",
        screen="",
        data={"message": message},
        status=status,
    )
