"""UUIDs of version 7."""

from __future__ import annotations

import threading
import uuid

from stepwell.model.ids import Uuid7Generator


def test_a_new_id_is_a_valid_uuid_of_version_7() -> None:
    parsed = uuid.UUID(Uuid7Generator().next())
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert str(parsed) == str(parsed).lower()


def test_ids_ascend_also_inside_one_millisecond() -> None:
    uuids = Uuid7Generator()
    several = [uuids.next() for _ in range(20_000)]
    assert several == sorted(several)
    assert len(set(several)) == len(several)


def test_many_at_once_ascend_and_come_after_what_was_made_before() -> None:
    uuids = Uuid7Generator()
    before, several, after = uuids.next(), uuids.many(10_000), uuids.next()
    assert [before, *several, after] == sorted({before, *several, after})
    assert uuids.many(0) == []


def test_ids_still_ascend_when_the_clock_of_the_machine_goes_back(monkeypatch) -> None:
    uuids = Uuid7Generator()
    first = uuids.next()
    monkeypatch.setattr("stepwell.model.ids.time.time_ns", lambda: 1_000_000)
    assert uuids.next() > first


def test_an_id_tells_when_it_was_made(monkeypatch) -> None:
    monkeypatch.setattr("stepwell.model.ids.time.time_ns", lambda: 1_767_225_600_123 * 1_000_000)
    assert uuid.UUID(Uuid7Generator().next()).int >> 80 == 1_767_225_600_123


def test_threads_never_get_the_same_id() -> None:
    uuids = Uuid7Generator()
    made: list[list[str]] = [[] for _ in range(8)]
    threads = [threading.Thread(target=lambda own=own: own.extend(uuids.next() for _ in range(2_000))) for own in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(own == sorted(own) for own in made)
    assert len(set().union(*made)) == 16_000
