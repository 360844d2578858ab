"""Every screen on every database: rendered, escaped and tagged; its actions need a token and a role."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from stepwell import Stepwell, current_step
from stepwell.model.states import State
from stepwell.operate.reaper import STALLED_SECONDS
from stepwell.testing import ManualClock
from stepwell.web import Role, Visitor, application
from stepwell.web.screens import deploy as gate
from stepwell.web.screens.asked import Asked, View
from stepwell.web.screens.last_hour import pauses
from stepwell.web.screens.overview import overview
from stepwell.web.screens.pages import Pages
from stepwell.web.screens.templating import FOLDER
from tests.browser.screens import screens_of
from tests.browser.shop import HOSTILE, Shop, open_shop
from tests.conformance.support.engine import Engine
from tests.conformance.web.support import client, web

SAME_SITE = {"sec-fetch-site": "same-origin"}


@pytest.fixture
def shop(shared_database_url: str) -> Iterator[Shop]:
    made = open_shop(shared_database_url, hours=1)
    yield made
    made.app.close()


def client_of(app: Stepwell, role: Role = Role.ADMIN, *, read_only: bool = False) -> TestClient:
    made = application(app, recognise=lambda scope: Visitor("ann", role), read_only=read_only)
    return TestClient(made, base_url="http://localhost/step-dispatcher", headers=SAME_SITE, follow_redirects=False)


def token_in(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found is not None
    return found[1]


@pytest.mark.slow
def test_every_screen_is_rendered_with_its_data_escaped(shop: Shop) -> None:
    client = client_of(shop.app)
    for name, path in screens_of(shop).items():
        page = client.get(path)
        assert page.status_code == 200, (name, page.text)
        assert HOSTILE not in page.text, name
        assert "<title>" in page.text
    fragment = client.get("/", headers={"x-stepwell-fragment": "1"})
    assert "<header" not in fragment.text
    tag = fragment.headers["etag"]
    again = client.get("/", headers={"x-stepwell-fragment": "1", "if-none-match": tag})
    assert (again.status_code, again.text) == (304, "")
    assert client.get("/steps/999999").status_code == 404
    assert client.get("/steps?relatable=nonsense").status_code == 400


def test_secrets_in_arguments_are_neither_shown_nor_searched_for(app: Stepwell) -> None:
    client = client_of(app)
    step = app.enqueue("embroider", {"text": "S", "password": "hunter2"}, queue="gpu")
    assert "hunter2" not in client.get(f"/steps/{step.id}").text
    assert "cannot be searched for" in client.get("/steps?args.password=hunter2").text


def test_a_reader_is_offered_no_action_and_refused_one(app: Stepwell) -> None:
    step = app.enqueue("embroider", {"text": "S"}, queue="gpu")
    app.cancel(step, who="ann")
    token = token_in(client_of(app).get(f"/steps/{step.id}").text)
    for visitor in (client_of(app, Role.READ), client_of(app, read_only=True)):
        page = visitor.get(f"/steps/{step.id}").text
        assert 'method="post"' not in page
        assert "read only" in page
        assert visitor.post(f"/steps/{step.id}/retry", data={"csrf": token}).status_code == 403
    assert app.step(step).state is State.CANCELLED


def test_an_action_needs_the_token_of_its_visitor(app: Stepwell) -> None:
    client = client_of(app)
    step = app.enqueue("embroider", {"text": "S"}, queue="gpu")
    app.cancel(step, who="ann")
    assert client.post(f"/steps/{step.id}/retry", data={"csrf": "wrong"}).status_code == 403
    token = token_in(client.get(f"/steps/{step.id}").text)
    assert client.post(f"/steps/{step.id}/retry", data={"csrf": token}).status_code == 303
    assert app.step(step).state is State.PENDING
    elsewhere = client.post("/breaker/resume", data={"csrf": token, "next": "//evil.example/"})
    assert elsewhere.headers["location"] == "/step-dispatcher/"


def test_the_charts_show_when_dispatching_was_off(app: Stepwell, clock: ManualClock) -> None:
    page = client_of(app)
    assert 'class="gap"' not in page.get("/").text
    clock.advance(3_600)
    app.breaker.pause("ann", "too long ago")
    clock.advance(7_200)
    off = clock.now()
    app.breaker.resume("ann")
    clock.advance(600)
    app.breaker.pause("ann", "deploy 4.2")
    clock.advance(300)
    now = clock.now()
    minutes = [timedelta(minutes=number) for number in (5, 15, 60)]
    assert pauses(app, now - minutes[2], now) == [(now - minutes[0], now), (now - minutes[2], off)]
    shown = client_of(app).get("/").text
    assert shown.count('class="gap"') == 2 * 4
    assert "dispatching was off" in shown


def test_every_group_keeps_its_place_on_the_overview(app: Stepwell) -> None:
    app.enqueue("mail", {"to": "ann@example"}, group="beta")
    shown = re.findall(r'data-key="g-(\w+)"', client_of(app).get("/").text)
    assert shown == [row.group for row in app.figures.groups()]
    assert len(shown) == len(app.groups())


def test_the_deploy_gate_promises_no_moment_for_steps_that_it_has_not_read(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "usual_of", lambda app, action: (1.0, 2.0))
    engine.plant("one, two, three")
    with engine.worker():
        engine.tick()
        engine.app.breaker.pause("ann", "deploy 4.2")
        assert "Safe about" in client_of(engine.app).get("/deploy").text
        monkeypatch.setattr(gate, "DISPATCHED", 2)
        assert "there is no estimate for all of them" in client_of(engine.app).get("/deploy").text


def test_the_banner_is_red_once_the_planned_end_of_a_pause_is_over(app: Stepwell, clock: ManualClock) -> None:
    page = client_of(app)
    token = token_in(page.get("/deploy").text)
    form = {"csrf": token, "why": "deploy 4.2", "next": "/deploy"}
    refused = page.post("/breaker/pause", data={**form, "planned": "a while"})
    assert (refused.status_code, app.breaker.state().dispatching) == (400, True)
    assert "is not a duration" in refused.text
    assert page.post("/breaker/pause", data={**form, "planned": "20m"}).status_code == 303
    shown = page.get("/groups?a").text
    assert "(planned 20 min)" in shown
    assert 'class="banner late"' not in shown
    clock.advance(20 * 60 + 1)
    shown = client_of(app).get("/groups").text
    assert "past its planned end" in shown
    assert 'class="banner late"' in shown


def test_only_an_administrator_defines_schedules(app: Stepwell) -> None:
    @app.job()
    def report() -> None: ...

    schedule = app.schedules.create("nightly", "0 4 * * *", report, who="ann").id
    client = client_of(app, Role.OPERATE)
    token = token_in(client.get(f"/schedules/{schedule}").text)
    form = {"csrf": token, "name": "x", "expression": "0 4 * * *", "handler": "report"}
    assert client.post("/schedules/new", data=form).status_code == 403
    assert client.post(f"/schedules/{schedule}/do/disable", data={"csrf": token}).status_code == 303


@pytest.mark.one_database
def test_templates_have_no_inline_script_or_style_and_mark_nothing_as_safe() -> None:
    for path in Path(FOLDER).glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert "|safe" not in text.replace(" ", ""), path.name
        assert not re.search(r"<script(?![^>]*src=)|\sstyle=|\son[a-z]+=", text), path.name


@pytest.mark.one_database
def test_all_who_ask_for_a_screen_at_once_share_one_rendering(app: Stepwell) -> None:
    made = application(app, recognise=lambda scope: Visitor("ann", Role.ADMIN))
    rendered: list[str] = []

    def screen(asked: Asked) -> View:
        rendered.append(asked.path)
        return overview(asked)

    endpoint = Pages(made.site).screen(screen)

    async def ask() -> list[int]:
        scope = {
            "type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [], "path_params": {},
            "server": ("localhost", 80), "scheme": "http", "state": {"visitor": Visitor("ann", Role.ADMIN)},
        }  # fmt: skip
        answers = await asyncio.gather(*(endpoint(Request(dict(scope))) for _ in range(8)))
        return [answer.status_code for answer in answers]

    assert asyncio.run(ask()) == [200] * 8
    assert rendered == ["/"]


def test_undo_is_offered_for_ten_seconds(app: Stepwell, clock: ManualClock) -> None:
    @app.job(max_retries=0)
    def work() -> None:
        raise ValueError("no")

    step = app.enqueue("work")
    app.run_until_idle()
    page = client(web(app))
    retried = page.post(f"/step-dispatcher/steps/{step.id}/retry")
    clock.advance(9)
    assert "Undo" in page.get(retried.headers["location"]).text
    clock.advance(2)
    after = page.get(f"{retried.headers['location']}&later").text
    assert "Undo" not in after
    assert "was recorded as" in after


def test_a_running_step_shows_how_long_its_action_usually_takes(app: Stepwell, clock: ManualClock) -> None:
    seen = []

    @app.job()
    def work() -> None:
        clock.advance(12)
        seen.append(client(web(app)).get(f"/step-dispatcher/steps/{current_step().id}").text)

    app.enqueue("work")
    app.run_until_idle()
    app.enqueue("work")
    app.run_until_idle()
    assert "usually takes" not in seen[0]
    assert "A run of work usually takes" in seen[1]


def test_the_overview_names_a_group_whose_step_waits_although_a_slot_is_free(engine: Engine) -> None:
    with engine.worker() as runner:
        engine.plant("step", group="alpha")
        engine.app.dispatcher().round(open_too=False)
        assert "no progress" not in client_of(engine.app).get("/").text
        for _ in range(4):
            engine.clock.advance(STALLED_SECONDS / 3)
            runner.worker.heartbeat()
        page = client_of(engine.app).get("/").text  # another site: each keeps a page for a moment
    assert "group alpha: no progress for 80 s" in page
    assert f"step {engine['step'].id} is ready and a slot is free" in page
