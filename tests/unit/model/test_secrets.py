"""What a person sends back who was shown a value without its secrets."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.model.secrets import HiddenValue, Redaction

ANN, BOB = {"user": "ann", "token": "k-1"}, {"user": "bob", "token": "k-2"}
STORED = [ANN, BOB, "postgresql://u:s3cret@db/jobs", 3]


def shown(value: Any) -> Any:
    return Redaction().value(value)


@pytest.mark.parametrize(
    "sent_back",
    [STORED, [BOB, ANN, *STORED[2:]], [BOB], STORED[2:], [*STORED, "new"], [7, STORED[2], BOB], []],
)
def test_elements_that_were_moved_or_removed_keep_their_own_secrets(sent_back: list[Any]) -> None:
    assert Redaction().restored(shown(sent_back), STORED) == sent_back
    assert Redaction().restored({"in": shown(sent_back)}, {"in": STORED}) == {"in": sent_back}


def test_an_element_whose_secret_is_not_known_for_certain_is_refused() -> None:
    redaction, alike = Redaction(), [{"token": "k-1"}, {"token": "k-2"}]
    assert redaction.restored(shown(alike), alike) == alike
    for given, stored in ((shown(alike)[:1], alike), ([{"user": "eve", "token": "[redacted]"}], [ANN])):
        with pytest.raises(HiddenValue):
            redaction.refuse_hidden(redaction.restored(given, stored), "params")


def test_numbers_and_texts_of_any_kind_are_sent_back_as_they_are() -> None:
    strange = [10**30, float("inf"), "\ud800", None, [True, {"a": []}]]
    assert Redaction().restored(strange, [ANN, *strange]) == strange
