"""Assertions about what was enqueued."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from unittest.mock import ANY

import pytest

from stepwell import State, Stepwell, StepwellError
from stepwell.testing import ManualClock, assert_enqueued, behave, enqueued, refute_enqueued, run


@dataclass
class Order:
    id: int
    total: Decimal


@pytest.fixture
def app() -> Iterator[Stepwell]:
    with Stepwell("sqlite://", clock=ManualClock()) as app:

        @app.job(queue="emails")
        def send(to: str, order: Order | None = None, tries: int = 1) -> None: ...

        yield app


def test_arguments_match_in_part_also_inside_of_others(app: Stepwell) -> None:
    send = app.jobs["send"]
    send.enqueue("ann", order=Order(7, Decimal("1.50")))
    assert_enqueued(app, send)
    assert_enqueued(app, send, {"to": "ann", "order": {"id": 7}})
    assert_enqueued(app, send, {"order": Order(7, Decimal("1.50"))})
    assert_enqueued(app, "send", {"order": {"total": Decimal("1.50"), "id": ANY}})
    for other in ({"to": "bob"}, {"order": {"id": 8}}, {"cc": "ann"}, {"tries": True}, {"order": None}):
        refute_enqueued(app, send, other)


def test_fields_of_the_step_match(app: Stepwell) -> None:
    send = app.jobs["send"]
    send.options(delay=60, priority="high", label="hello").enqueue("ann")
    assert_enqueued(app, send, queue="emails", delay=60, priority="high", label="hello", state=State.PENDING)
    assert_enqueued(app, send, delay=timedelta(minutes=1))
    refute_enqueued(app, send, delay=0)
    refute_enqueued(app, send, queue="default")
    with pytest.raises(StepwellError, match="unknown field to; pass the arguments of the job in a dict"):
        assert_enqueued(app, send, to="ann")


def test_count_is_exact_and_the_steps_are_returned_oldest_first(app: Stepwell) -> None:
    send = app.jobs["send"]
    ids = [send.enqueue(f"reader {number}").id for number in range(1_100)]
    assert [step.id for step in assert_enqueued(app, send, count=1_100)] == ids
    assert [step.id for step in enqueued(app, send, {"to": "reader 3"})] == [ids[3]]
    assert_enqueued(app, send, {"to": "nobody"}, count=0)
    with pytest.raises(AssertionError, match=r"^1100 steps match send, expected 2; steps of send:") as caught:
        assert_enqueued(app, send, count=2)
    assert "and 1090 more" in str(caught.value)


def test_the_message_shows_what_was_there_instead(app: Stepwell) -> None:
    send = app.jobs["send"]
    with pytest.raises(AssertionError, match="no step matches send; there are no steps at all"):
        assert_enqueued(app, send)
    app.enqueue("ship", {"order": 1})
    with pytest.raises(AssertionError, match=re.escape("no step matches send; steps of other jobs: ship (1)")):
        assert_enqueued(app, send)
    send.enqueue("ann")
    with pytest.raises(AssertionError) as missing:
        assert_enqueued(app, send, {"to": "bob"}, delay=5)
    lines = str(missing.value).splitlines()
    assert lines[0] == "no step matches send {'to': 'bob'}, delay=5; steps of send:"
    assert lines[1].startswith("  step 2: Pending, queue='emails', delay=0.0, arguments={'to': 'ann'")
    with pytest.raises(AssertionError, match=r"^expected no step that matches send {'to': 'ann'}; found:\n  step 2: "):
        refute_enqueued(app, send, {"to": "ann"})


def test_steps_of_workflows_and_children_are_found(app: Stepwell) -> None:
    job = behave(app)
    flow = app.workflows("shop").workflow("flow")
    first = flow.step(name="first", arguments={"spawn": [{"result": 5}]})(job)
    run(flow)
    [parent] = assert_enqueued(app, first, state="Completed", template="first", count=1)
    assert_enqueued(app, job, {"result": 5}, parent_step_id=parent.id, count=1)
