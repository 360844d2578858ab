"""Serving screens: one rendering per screen and second, shared by all who ask; conditional answers; errors as pages.

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
from dataclasses import replace
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
from stepwell.web.problems import HttpProblem
from stepwell.web.screens.asked import Asked, Form, Redirect, View
from stepwell.web.screens.pulse import CAUSES_SECONDS, Pulse, causes_of, pulse_of
from stepwell.web.screens.static import version
from stepwell.web.screens.templating import environment
from stepwell.web.site import Site, visitor_of
from stepwell.web.visitor import Role

Screen: TypeAlias = Callable[[Asked], View | Redirect]
Action: TypeAlias = Callable[[Asked, Form, str], str]
Key: TypeAlias = tuple[Any, ...]
Shared: TypeAlias = tuple[float, int, str, str]  # when it was rendered, status, body, tag

# One second: with polls every two seconds a change is on the screen within three.
SHARED_SECONDS: Final = 1.0
MOST_SHARED: Final = 200
_NOT_FOUND: Final = (StepNotFound, WorkflowNotFound, OperationNotFound, ScheduleNotFound)


class Pages:
    """Renders the screens of one site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._token_mark = f"token-{secrets.token_hex(16)}"
        self._shared: OrderedDict[Key, Shared] = OrderedDict()
        self._making: dict[Key, asyncio.Future[Shared | Redirect]] = {}
        self._lock = Lock()
        self._pulse: tuple[float, Pulse] | None = None
        self._causes: tuple[float, int] | None = None

    def screen(self, screen: Screen) -> Callable[[Request], Any]:
        """An endpoint that shows a screen."""

        async def endpoint(request: Request) -> Response:
            asked, fragment = self._asked(request), "x-stepwell-fragment" in request.headers
            theme = request.cookies.get("stepwell_theme", "")
            key = (asked.base, asked.path, asked.query, asked.role, fragment, "" if fragment else theme)
            found = self._kept(key) or await self._rendered(key, screen, asked, fragment, theme)
            return RedirectResponse(found.to, 303) if isinstance(found, Redirect) else self._answer(request, found)

        return endpoint

    async def _rendered(self, key: Key, screen: Screen, asked: Asked, fragment: bool, theme: str) -> Shared | Redirect:
        """All who ask while it is being rendered wait for the same rendering."""
        making = self._making.get(key)
        if making is None:
            making = asyncio.ensure_future(self._render_and_keep(key, screen, asked, fragment, theme))
            self._making[key] = making
            making.add_done_callback(lambda _: self._making.pop(key, None))
        return await asyncio.shield(making)

    async def _render_and_keep(
        self, key: Key, screen: Screen, asked: Asked, fragment: bool, theme: str
    ) -> Shared | Redirect:
        made = await self._site.read(self._make, screen, asked, fragment, theme)
        if isinstance(made, Redirect):
            return made
        status, body = made
        found = (time.monotonic(), status, body, hashlib.sha256(body.encode()).hexdigest()[:20])
        self._keep(key, found)
        return found

    def action(self, action: Action, role: Role = Role.OPERATE) -> Callable[[Request], Any]:
        """An endpoint that does something, and leads to the page that shows it."""

        async def endpoint(request: Request) -> Response:
            asked, form = self._asked(request), Form.of(await request.body())
            visitor = visitor_of(request)
            if not asked.may(role):
                return await self._refusal(asked, f"This needs the role {role}; you have {visitor.role}.", 403)
            try:
                to = await self._site.act(action, asked, form, visitor.name)
            except _NOT_FOUND as error:
                return await self._refusal(asked, str(error), 404)
            except (StepwellError, ValueError) as error:
                return await self._refusal(asked, str(error), 409 if isinstance(error, ActionRefused) else 400)
            with self._lock:
                self._shared.clear()
                self._pulse = self._causes = None
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
        )

    def _make(self, screen: Screen, asked: Asked, fragment: bool, theme: str) -> tuple[int, str] | Redirect:
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
        return view.status, self._render(view, asked, fragment, theme)

    def _render(self, view: View, asked: Asked, fragment: bool, theme: str) -> str:
        template = environment().get_template(view.template)
        return template.render(
            view.data,
            layout="fragment.html" if fragment else "page.html",
            view=view,
            asked=asked,
            link=asked.link,
            here=asked.here,
            now=asked.now,
            pulse=self._pulse_now(asked),
            csrf=self._token_mark,
            theme=theme if theme in ("light", "dark") else "",
            static=f"{asked.base}/static/{version()}",
            version=self._site.version,
            may_operate=asked.may(Role.OPERATE),
            may_admin=asked.may(Role.ADMIN),
        )

    def _pulse_now(self, asked: Asked) -> Pulse:
        kept = self._pulse
        if kept is None or time.monotonic() - kept[0] > SHARED_SECONDS:
            kept = (time.monotonic(), pulse_of(asked.app, self._causes_now(asked)))
            self._pulse = kept
        return kept[1]

    def _causes_now(self, asked: Asked) -> int:
        kept = self._causes
        if kept is None or time.monotonic() - kept[0] > CAUSES_SECONDS:
            kept = (time.monotonic(), causes_of(asked.app))
            self._causes = kept
        return kept[1]

    def _kept(self, key: Key) -> Shared | None:
        with self._lock:
            found = self._shared.get(key)
            return found if found is not None and time.monotonic() - found[0] < SHARED_SECONDS else None

    def _keep(self, key: Key, made: Shared) -> None:
        with self._lock:
            self._shared[key] = made
            self._shared.move_to_end(key)
            while len(self._shared) > MOST_SHARED:
                self._shared.popitem(last=False)

    def _answer(self, request: Request, found: Shared) -> Response:
        _, status, body, tag = found
        headers = {
            "ETag": f'"{tag}"',
            "Cache-Control": "private, no-cache",
            "Vary": "X-Stepwell-Fragment, Cookie",
            "X-Stepwell-Now": f"{self._site.app.database.now().timestamp():.3f}",
        }
        if status == 200 and request.headers.get("if-none-match") == f'"{tag}"':
            return Response(status_code=304, headers=headers)
        return HTMLResponse(body.replace(self._token_mark, visitor_of(request).csrf), status, headers=headers)

    async def _refusal(self, asked: Asked, message: str, status: int) -> Response:
        view = replace(problem_view("Nothing changed", message, status), live=False)
        body = await self._site.read(self._render, view, asked, False, "")
        return HTMLResponse(body.replace(self._token_mark, ""), status)


def problem_view(title: str, message: str, status: int) -> View:
    return View(
        template="problem.html",
        title=title,
        cli="stepwell doctor",
        screen="",
        data={"message": message},
        status=status,
    )
