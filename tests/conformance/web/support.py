"""Clients of a web application without a server."""

from __future__ import annotations

from typing import Any, Final

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
