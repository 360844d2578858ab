"""Requests: who starts a workflow and why, what is bypassed, and what makes two of them the same."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import InvalidRequest, Run, Stepwell, Template, WorkflowConflict, WorkflowNotFound
from stepwell.workflow.request import Request, identity_of
from tests.unit.workflow import shop


@pytest.fixture(autouse=True)
def fulfil(app: Stepwell) -> None:
    shop.declare_fulfil(app)


def start(app: Stepwell, context: Any = None, **request: Any) -> Run:
    return app.workflows("shop").start("fulfil", {"id": 1} if context is None else context, **request)


def started(app: Stepwell) -> int:
    (row,) = app.database.read(lambda tx: tx.fetch("SELECT count(*) AS number FROM steps_workflows", {}))
    return int(row["number"])


def test_a_start_passes_on_a_checked_request(app: Stepwell) -> None:
    row = (
        app.workflows.get("fulfil", namespace="shop")
        .start(shop.Order(7), initiator="web", source_system="shop", reason="checkout", tags=["a", "b", "a"])
        .row()
    )
    assert (row.namespace, row.name, row.state) == ("shop", "fulfil", "pending")
    assert row.context == {"id": 7, "lines": [], "gift": False}
    assert (row.initiator, row.source_system, row.request_reason, row.tags) == ("web", "shop", "checkout", ["a", "b"])


def test_a_skippable_step_can_be_bypassed(app: Stepwell) -> None:
    run = start(app, bypass_steps=[app.workflows.get("fulfil", namespace="shop")["wrapping"], "wrapping"])
    assert run.row().bypass_steps == ["wrapping"]
    assert run.step("wrapping").state == "Skipped"


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
def test_a_bad_request_is_refused(app: Stepwell, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        start(app, **options)
    assert message in str(error.value)
    assert str(error.value).endswith("nothing was started")
    assert started(app) == 0


def test_every_problem_of_a_request_is_reported(app: Stepwell) -> None:
    with pytest.raises(InvalidRequest, match=r"initiator.*tags.*bypass_steps"):
        start(app, initiator=3, tags=4, bypass_steps=["x"])


def test_a_request_is_unique_unless_it_says_otherwise(app: Stepwell) -> None:
    assert start(app).row().identity is None
    assert start(app).row().identity is None
    assert started(app) == 2


def test_the_hash_covers_name_validated_context_and_bypass_only(app: Stepwell) -> None:
    first = start(app, {"id": 1}, identity="hash", initiator="a", reason="b", tags=["c"])
    with pytest.raises(WorkflowConflict, match=first.id):  # defaults, order of keys and who asked do not matter
        start(app, {"gift": False, "id": 1, "lines": []}, identity="hash", initiator="x")
    start(app, {"id": 2}, identity="hash")
    start(app, {"id": 1}, identity="hash", bypass_steps=["wrapping"])
    shop.declare_fulfil(app, version="3")
    with pytest.raises(WorkflowConflict, match=first.id):  # a new version is the same request
        start(app, {"id": 1}, identity="hash")
    assert started(app) == 3


def test_equal_numbers_have_one_hash() -> None:
    template = Template(name="w")
    hashes = {identity_of(template, Request(context={"n": n}, identity="hash")) for n in (1, 1.0)}
    assert len(hashes) == 1
    assert identity_of(template, Request(context={"n": True}, identity="hash")) not in hashes


def test_a_key_is_the_identity(app: Stepwell) -> None:
    first = start(app, key="order-7")
    with pytest.raises(WorkflowConflict) as conflict:
        start(app, {"id": 2}, key="order-7")
    assert conflict.value.workflow_id == first.id
    start(app, key="order-8")
    app.workflows().workflow("rows").start(key="order-7")  # a key belongs to its workflow
    assert started(app) == 3


def test_a_start_by_name_takes_the_default_namespace_and_the_newest_version(app: Stepwell) -> None:
    for version in ("9", "10", "1.10"):
        app.workflows().workflow("rows", version=version)
    assert app.workflows.start("rows").row().version == "10"
    assert app.workflows.start("rows", version=9).row().version == "9"
    with pytest.raises(WorkflowNotFound, match=r"versions: 1\.10, 9, 10"):
        app.workflows.start("rows", version="11")
    with pytest.raises(WorkflowNotFound, match=r"did you mean 'default\.rows'"):
        app.workflows.start("row")
