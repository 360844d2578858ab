"""UUIDs of version 7."""

from __future__ import annotations

import threading
import uuid

from stepwell.model import ids


def test_a_new_id_is_a_valid_uuid_of_version_7() -> None:
    parsed = uuid.UUID(ids.uuid7())
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert str(parsed) == str(parsed).lower()


def test_ids_ascend_also_inside_one_millisecond() -> None:
    several = [ids.uuid7() for _ in range(20_000)]
    assert several == sorted(several)
    assert len(set(several)) == len(several)


def test_many_at_once_ascend_and_come_after_what_was_made_before() -> None:
    before, several, after = ids.uuid7(), ids.uuid7s(10_000), ids.uuid7()
    assert [before, *several, after] == sorted({before, *several, after})
    assert ids.uuid7s(0) == []


def test_ids_still_ascend_when_the_clock_of_the_machine_goes_back(monkeypatch) -> None:
    first = ids.uuid7()
    monkeypatch.setattr("stepwell.model.ids.time.time_ns", lambda: 1_000_000)
    assert ids.uuid7() > first


def test_an_id_tells_when_it_was_made(monkeypatch) -> None:
    monkeypatch.setattr(ids, "_last", 0)
    monkeypatch.setattr("stepwell.model.ids.time.time_ns", lambda: 1_767_225_600_123 * 1_000_000)
    assert uuid.UUID(ids.uuid7()).int >> 80 == 1_767_225_600_123


def test_threads_never_get_the_same_id() -> None:
    made: list[list[str]] = [[] for _ in range(8)]
    threads = [threading.Thread(target=lambda own=own: own.extend(ids.uuid7() for _ in range(2_000))) for own in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(own == sorted(own) for own in made)
    assert len(set().union(*made)) == 16_000
