"""What expressions do when the clocks change."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from stepwell.model.errors import CronParseError
from stepwell.schedule.cron import CronExpression, explain_time
from tests.golden_slots import GOLDEN, Golden, at

MICROSECOND = timedelta(microseconds=1)


def parsed(case: Golden) -> CronExpression:
    return CronExpression.parse(case.expression, zone=case.zone)


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_slots_are_those_of_the_table(case: Golden) -> None:
    assert tuple(parsed(case).slots(case.after, case.until)) == case.slots


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_every_way_to_ask_agrees_with_the_table(case: Golden) -> None:
    expression = parsed(case)
    assert expression.count(case.after, case.until) == len(case.slots)
    assert expression.latest(case.until, after=case.after) == (case.slots[-1] if case.slots else None)
    asked_for = case.after
    for slot in case.slots:
        # Asked from any moment between two slots: the repeated hour included.
        for moment in (asked_for, asked_for + (slot - asked_for) / 2, slot - MICROSECOND):
            assert expression.after(moment) == slot
        assert expression.latest(slot) == slot
        assert expression.is_slot(slot)
        assert not expression.is_slot(slot + MICROSECOND)
        asked_for = slot
    following = expression.after(asked_for)
    assert following is not None
    assert following > case.until
    assert expression.latest(following - MICROSECOND) == expression.latest(case.until)


@pytest.mark.parametrize(
    ("text", "local", "clock", "fires_at", "says"),
    [
        ("30 2 * * *", "2026-03-29T02:30", "skipped", ["03-29 01:00"], "02:30 does not exist on 2026-03-29"),
        ("*/30 * * * *", "2026-03-29T02:30", "skipped", [], "follows the clock, so there is no slot"),
        ("30 2 * * *", "2026-10-25T02:30", "repeated", ["10-25 00:30"], "it fires once, the first time"),
        ("*/30 * * * *", "2026-10-25T02:30", "repeated", ["10-25 00:30", "10-25 01:30"], "it fires both times"),
        ("30 2 * * *", "2026-10-25T02:15", "repeated", [], "it is not a time of '30 2 * * *'"),
        ("30 2 * * *", "2026-03-29T03:00", "normal", [], "03:00 on 2026-03-29 in Europe/Berlin is not a time of"),
        (
            "30 2 * * *",
            "2026-06-01T02:30:59",
            "normal",
            ["06-01 00:30"],
            "02:30 on 2026-06-01 in Europe/Berlin is a time of",
        ),
        ("30 2 * * MON", "2026-03-29T02:30", "skipped", [], "it is not a time of '30 2 * * MON'"),
    ],
)
def test_a_local_time_is_explained(text: str, local: str, clock: str, fires_at: list[str], says: str) -> None:
    found = explain_time(CronExpression.parse(text, zone="Europe/Berlin"), datetime.fromisoformat(local))
    assert (found.clock, list(found.fires_at)) == (clock, [at(moment) for moment in fires_at])
    assert says in found.text


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_an_explained_time_fires_at_slots(case: Golden) -> None:
    """The slots of the table are exactly those that the local times around the change lead to."""
    expression = parsed(case)
    local = case.after.astimezone(expression.zone_info).replace(tzinfo=None) - timedelta(hours=3)
    end = case.until.astimezone(expression.zone_info).replace(tzinfo=None) + timedelta(hours=3)
    found: set[datetime] = set()
    while local <= end:
        found.update(explain_time(expression, local).fires_at)
        local += timedelta(minutes=1)
    assert sorted(slot for slot in found if case.after < slot <= case.until) == list(case.slots)


def test_a_hashed_step_goes_on_in_real_time_as_a_plain_one_does() -> None:
    after, until = at("10-24 22:00"), at("10-25 04:00")
    hashed = CronExpression.parse("H/15 * * * *", zone="Europe/Berlin", seed="any")
    slots = list(hashed.slots(after, until))
    assert len(slots) == 6 * 4
    assert {later - earlier for earlier, later in pairwise(slots)} == {timedelta(minutes=15)}


def test_what_only_the_left_out_hour_would_fire_is_refused() -> None:
    with pytest.raises(CronParseError, match="never fire, because in Europe/Berlin its times are left out"):
        CronExpression.parse("*/5 2 * 3 7L", zone="Europe/Berlin")  # the last Sunday of March
    assert CronExpression.parse("30 2 * 3 7L", zone="Europe/Berlin").after(at("01-01")) == at("03-29 01:00")
