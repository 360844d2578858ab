"""Checks of a row of plain SQL that the database cannot make: its text and its arguments obey the limits of the API."""

from __future__ import annotations

from msgspec.structs import asdict

from stepwell.define.drafts import MAX_NAME
from stepwell.model import codec
from stepwell.model.errors import InvalidStep, UnstorableValue
from stepwell.store import Transaction
from stepwell.store.engine import adoption
from stepwell.store.engine.adoption import NewRow
from stepwell.store.transaction import UNREADABLE_TEXT


def check_row(tx: Transaction, row: NewRow) -> None:
    """Raise InvalidStep with what is wrong with the row."""
    suspects = [name for name, value in asdict(row).items() if isinstance(value, str) and UNREADABLE_TEXT in value]
    if suspects and (bad := adoption.not_utf8(tx, row.id, suspects)):
        raise InvalidStep(f"its {', '.join(bad)} is not valid UTF-8")
    for name in ("action", "label", "queue", "group"):
        if len(getattr(row, name) or "") > MAX_NAME:
            raise InvalidStep(f"its {name} has more than {MAX_NAME} characters")
    try:
        arguments = codec.decode(row.arguments)
    except ValueError as error:
        raise InvalidStep(f"its arguments cannot be decoded: {error}") from error
    if not isinstance(arguments, dict):
        raise InvalidStep("its arguments are not a JSON object of the job's parameters by name")
    try:
        codec.encode(arguments)
    except UnstorableValue as error:
        raise InvalidStep(f"its {error}") from error
