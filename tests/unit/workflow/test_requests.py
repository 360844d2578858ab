"""Requests: who starts a workflow and why, what is bypassed, and what makes two of them the same."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import InvalidRequest, Stepwell, Template, WorkflowNotFound
from stepwell.workflow.request import Request, identity_of
from tests.unit.workflow import shop


class Recorder:
    """Keeps what would be written to a database."""

    def __init__(self) -> None:
        self.started: list[tuple[Template, str, Request]] = []

    def start(self, template: Template, context_json: str, request: Request, *, connection: Any = None) -> Any:
        self.started.append((template, context_json, request))
        return connection


@pytest.fixture
def recorder(app: Stepwell) -> Recorder:
    app.workflows.starter = recorder = Recorder()
    shop.declare_fulfil(app)
    return recorder


def start(app: Stepwell, context: Any = None, **request: Any) -> None:
    app.workflows("shop").start("fulfil", {"id": 1} if context is None else context, **request)


def identity(recorder: Recorder) -> str | None:
    template, _, request = recorder.started[-1]
    return identity_of(template, request)


def test_a_start_passes_on_a_checked_request(app: Stepwell, recorder: Recorder) -> None:
    app.workflows.get("fulfil", namespace="shop").start(
        shop.Order(7), initiator="web", source_system="shop", reason="checkout", tags=["a", "b", "a"]
    )
    ((template, context, request),) = recorder.started
    assert template.name == "fulfil"
    assert context == '{"id":7,"lines":[],"gift":false}'
    assert request == Request(
        context={"id": 7, "lines": [], "gift": False},
        initiator="web",
        source_system="shop",
        reason="checkout",
        tags=("a", "b"),
    )


def test_the_connection_of_the_caller_is_passed_on(app: Stepwell, recorder: Recorder) -> None:
    assert app.workflows.start("fulfil", {"id": 1}, namespace="shop", connection="c") == "c"  # type: ignore[comparison-overlap]


def test_a_skippable_step_can_be_bypassed(app: Stepwell, recorder: Recorder) -> None:
    start(app, bypass_steps=[app.workflows.get("fulfil", namespace="shop")["wrapping"], "wrapping"])
    assert recorder.started[0][2].bypass_steps == ("wrapping",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bypass_steps": ["payment"]}, "step 'payment' is not skippable; skippable steps: wrapping"),
        ({"bypass_steps": ["wraping"]}, "unknown step 'wraping'; did you mean 'wrapping'?"),
        ({"bypass_steps": "wrapping"}, "expected a list of steps"),
        ({"tags": "one"}, "expected a list of texts"),
        ({"tags": [1]}, "tag 1"),
        ({"initiator": 3}, "initiator is 3"),
        ({"reason": ""}, "reason is ''"),
        ({"key": "a\0b"}, "key is"),
        ({"identity": "hsh"}, "expected 'unique' or 'hash'"),
        ({"identity": "hash", "key": "k"}, "exclude each other"),
        ({"initator": "web"}, "did you mean 'initiator'?"),
    ],
)
def test_a_bad_request_is_refused(app: Stepwell, recorder: Recorder, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        start(app, **options)
    assert message in str(error.value)
    assert str(error.value).endswith("nothing was started")
    assert recorder.started == []


def test_every_problem_of_a_request_is_reported(app: Stepwell, recorder: Recorder) -> None:
    with pytest.raises(InvalidRequest, match=r"initiator.*tags.*bypass_steps"):
        start(app, initiator=3, tags=4, bypass_steps=["x"])


def test_a_request_is_unique_unless_it_says_otherwise(app: Stepwell, recorder: Recorder) -> None:
    start(app)
    assert identity(recorder) is None


def test_the_hash_covers_name_validated_context_and_bypass_only(app: Stepwell, recorder: Recorder) -> None:
    start(app, {"id": 1}, identity="hash", initiator="a", reason="b", tags=["c"])
    first = identity(recorder)
    start(app, {"gift": False, "id": 1, "lines": []}, identity="hash", initiator="x")
    assert identity(recorder) == first, "defaults, order of keys and who asked do not matter"
    start(app, {"id": 2}, identity="hash")
    assert identity(recorder) != first
    start(app, {"id": 1}, identity="hash", bypass_steps=["wrapping"])
    assert identity(recorder) != first
    shop.declare_fulfil(app, version="3")
    start(app, {"id": 1}, identity="hash")
    assert recorder.started[-1][0].version == "3"
    assert identity(recorder) == first, "a new version is the same request"


def test_equal_numbers_have_one_hash() -> None:
    template = Template(name="w")
    hashes = {identity_of(template, Request(context={"n": n}, identity="hash")) for n in (1, 1.0)}
    assert len(hashes) == 1
    assert identity_of(template, Request(context={"n": True}, identity="hash")) not in hashes


def test_a_key_is_the_identity(app: Stepwell, recorder: Recorder) -> None:
    start(app, key="order-7")
    first = identity(recorder)
    start(app, {"id": 2}, key="order-7")
    assert identity(recorder) == first is not None
    start(app, key="order-8")
    assert identity(recorder) != first


def test_a_start_by_name_takes_the_default_namespace_and_the_newest_version(app: Stepwell, recorder: Recorder) -> None:
    for version in ("9", "10", "1.10"):
        app.workflows().workflow("rows", version=version)
    app.workflows.start("rows")
    app.workflows.start("rows", version=9)
    assert [template.version for template, _, _ in recorder.started] == ["10", "9"]
    with pytest.raises(WorkflowNotFound, match=r"versions: 1\.10, 9, 10"):
        app.workflows.start("rows", version="11")
    with pytest.raises(WorkflowNotFound, match=r"did you mean 'default\.rows'"):
        app.workflows.start("row")
