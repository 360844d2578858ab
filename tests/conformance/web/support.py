"""Clients of a web application without a server."""

from __future__ import annotations

from typing import Any, Final, Self

from starlette.testclient import TestClient

from stepwell import Stepwell
from stepwell.web import Application, Role, Token, application

TOKENS: Final = {
    role: Token(f"a-token-for-the-role-{role}", f"ann-{role}", role) for role in (Role.READ, Role.OPERATE, Role.ADMIN)
}


def web(app: Stepwell, **settings: Any) -> Application:
    return application(app, tokens=TOKENS.values(), **settings)


def client(made: Application, role: Role | None = Role.ADMIN, **headers: str) -> TestClient:
    """A program with the token of a role; None: without any."""
    if role is not None:
        headers["authorization"] = f"Bearer {TOKENS[role].secret}"
    return TestClient(made, base_url="http://localhost", headers=headers, follow_redirects=False)


def browser(made: Application, name: str = "ann", **headers: str) -> TestClient:
    """A browser that has signed in by a one-time link."""
    made_client = client(made, None, **{"sec-fetch-site": "same-origin", **headers})
    code = made.sign_in_path(name).partition("code=")[2]
    answer = made_client.post("/step-dispatcher/login", data={"code": code})
    assert answer.status_code == 303
    return made_client


class Died(Exception):
    """The process is dead. An `Exception`: one that is none would stop the event loop of the test."""


class Death:
    """Dies before or after a commit; from then on, nothing is read or written any more."""

    def __init__(self, app: Stepwell, commit: int, moment: str = "before") -> None:
        self._app, self._left, self._moment = app, commit, moment
        self.has_come = False

    def __enter__(self) -> Self:
        self._app.database.watch = self._at
        return self

    def __exit__(self, *error: object) -> None:
        self._app.database.watch = None

    def _at(self, moment: str, tx: Any) -> None:
        self._left -= moment == self._moment
        if self._left == 0 or self.has_come:
            self.has_come = True
            raise Died
