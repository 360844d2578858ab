"""Failures that are alike have the same fingerprint, whatever they mention."""

from __future__ import annotations

import json

import pytest

from stepwell.model.error_text import describe, stack_of
from stepwell.model.fingerprint import constant_part, fingerprint, own_frame


@pytest.mark.parametrize(
    ("message", "constant"),
    [
        ("no order 4711", "no order <n>"),
        ("-1.5e3 is below 0", "<n> is below <n>"),
        ("took 1,204 ms at 12:30:05", "took <n> ms at <n>"),
        ("'a' and \"b\" differ", "<text> and <text> differ"),
        (r"'it\'s' quoted", "<text> quoted"),
        ("it's the users' fault", "it's the users' fault"),
        ("no key `x`", "no key <text>"),
        ("id 01890A5D-ac96-774b-bcce-b302099a8057", "id <id>"),
        ("at 0x7f3a and deadbeef01", "at <id> and <id>"),
        ("card order-17 of acct_9", "card <id> of <id>"),
        ("two\n  lines", "two lines"),
        ("", ""),
    ],
)
def test_numbers_ids_and_quoted_text_are_replaced(message: str, constant: str) -> None:
    assert constant_part(message) == constant


def test_the_action_the_class_the_message_and_the_frame_make_the_fingerprint() -> None:
    stack = (
        'Traceback (most recent call last):\n  File "/app/jobs.py", line {}, in charge\n    pay()\nValueError: no {}\n'
    )
    one = fingerprint("charge", "ValueError: no 1", stack.format(3, 1))
    assert one == fingerprint("charge", "ValueError: no 2", stack.format(99, 2))
    others = {
        fingerprint("mail", "ValueError: no 1", stack.format(3, 1)),
        fingerprint("charge", "KeyError: no 1", stack.format(3, 1)),
        fingerprint("charge", "ValueError: not 1", stack.format(3, 1)),
        fingerprint("charge", "ValueError: no 1", stack.format(3, 1).replace("in charge", "in refund")),
        fingerprint("charge", None),
    }
    assert len(others) == 5
    assert one not in others


def test_the_own_frame_is_the_innermost_one_outside_of_libraries() -> None:
    def parse() -> None:
        json.loads("{")

    with pytest.raises(ValueError, match="Expecting") as caught:
        parse()
    assert own_frame(stack_of(caught.value)) == "test_fingerprint.py parse"
    assert describe(caught.value).startswith("JSONDecodeError: ")
    assert own_frame("") == ""


def test_any_text_has_a_fingerprint() -> None:
    for text in ("", ": ", "\ud800", "'" * 5_000, '"' + "\\" * 5_000, "1-" * 5_000):
        assert len(fingerprint("act", text, text)) == 16
