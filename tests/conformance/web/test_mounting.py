"""The application inside of other ASGI applications, under a prefix."""

from __future__ import annotations

from typing import Any

import fastapi
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from stepwell import Stepwell
from stepwell.web import Application, Role
from tests.conformance.web.support import TOKENS, web


def in_starlette(made: Application) -> Any:
    return Starlette(routes=[Mount("/jobs", made)])


def in_fastapi(made: Application) -> Any:
    outer = fastapi.FastAPI()
    outer.mount("/jobs", made)
    return outer


@pytest.mark.parametrize("mounted", [in_starlette, in_fastapi])
def test_it_can_be_mounted_under_a_prefix(app: Stepwell, mounted: Any) -> None:
    made = web(app)
    outer = mounted(made)
    program = TestClient(outer, base_url="http://localhost", follow_redirects=False)
    assert program.get("/jobs/health/live").status_code == 200
    assert program.get("/jobs/api/v1/totals").status_code == 401
    program.headers["authorization"] = f"Bearer {TOKENS[Role.ADMIN].secret}"
    assert program.get("/jobs/api/v1/totals").json()["states"]["Pending"] == 0
    assert program.get("/jobs/api/v1/openapi.json").json()["servers"] == [{"url": "/jobs/api/v1"}]
    assert program.get("/jobs/").headers["location"] == "/jobs/step-dispatcher/"
    assert program.post("/jobs/step-dispatcher/toggle", json={"enabled": False}).json() == {"enabled": False}
    missing = program.get("/jobs/nothing")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")
    wrong = program.delete("/jobs/api/v1/totals")
    assert (wrong.status_code, set(wrong.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})


@pytest.mark.parametrize("mounted", [in_starlette, in_fastapi])
@pytest.mark.one_database
def test_signing_in_below_a_prefix_leads_back_below_it(app: Stepwell, mounted: Any) -> None:
    made = web(app)
    visitor = TestClient(
        mounted(made), base_url="http://localhost", follow_redirects=False, headers={"sec-fetch-site": "same-origin"}
    )
    page = visitor.get("/jobs/step-dispatcher/", headers={"accept": "text/html"})
    assert 'src="/jobs/step-dispatcher/login.js"' in page.text
    assert 'action="/jobs/step-dispatcher/login"' in page.text
    code = made.sign_in_path("ann").partition("code=")[2]
    answer = visitor.post("/jobs/step-dispatcher/login", data={"code": code})
    assert answer.headers["location"] == "/jobs/step-dispatcher/"
    assert "Path=/jobs;" in answer.headers["set-cookie"]
    assert visitor.get("/jobs/api/v1/totals").status_code == 200
