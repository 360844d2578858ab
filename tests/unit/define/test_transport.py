"""New steps on their way from a job's process to the worker that writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest
from msgspec.structs import fields

from stepwell import InvalidStep, NewStep
from stepwell.define.transport import from_wire, to_wire

UUIDS = [str(UUID(int=number)) for number in range(1, 6)]
FULL = NewStep(
    action="fetch",
    arguments={"amount": Decimal("1.5"), "at": datetime(2026, 1, 1, tzinfo=UTC)},
    uuid=UUIDS[0],
    parent=7,
    block=UUIDS[1],
    child_block=UUIDS[2],
    index=3,
    type="default",
    label="a label",
    depends_on=[8, UUIDS[3]],
    trigger_rule="all_ended",
    workflow=UUIDS[4],
    queue="candles",
    group="beta",
    priority="high",
    max_retries=0,
    timeout=1.5,
    cooldown=0.25,
    dispatch_after=datetime(2026, 1, 1, 12, 30, 0, 125, tzinfo=UTC),
    relatable=("account", 7),
    key="a key",
)


def through_a_pipe(draft: NewStep) -> NewStep:
    return from_wire(msgspec.msgpack.decode(msgspec.msgpack.encode(to_wire(draft))))


def test_every_field_arrives() -> None:
    arrived = through_a_pipe(FULL)
    expected = {field.name: getattr(FULL, field.name) for field in fields(NewStep)}
    expected["arguments"] = {"amount": "1.5", "at": "2026-01-01T00:00:00Z"}
    assert {field.name: getattr(arrived, field.name) for field in fields(NewStep)} == expected


def test_a_delay_arrives_in_seconds() -> None:
    assert through_a_pipe(NewStep(action="fetch", delay=timedelta(minutes=1, milliseconds=5))).delay == 60.005
    assert through_a_pipe(NewStep(action="fetch", delay=0)).delay == 0


def test_default_values_are_not_sent() -> None:
    assert to_wire(NewStep(action="fetch")) == {"action": "fetch", "arguments": {}}


@pytest.mark.parametrize("bad", [NewStep(action=""), NewStep(action="fetch", arguments={"n": object()})])
def test_a_draft_that_cannot_be_created_is_refused_before_it_is_sent(bad: NewStep) -> None:
    with pytest.raises(InvalidStep):
        to_wire(bad)
