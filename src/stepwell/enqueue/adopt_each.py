"""Adopting rows one by one, after one of a batch could not be adopted: only that one is set aside."""

from __future__ import annotations

import logging
from typing import Final

from stepwell.enqueue.adopt import BATCH, adopt_new_steps
from stepwell.enqueue.create import Creator
from stepwell.enqueue.set_aside import set_aside
from stepwell.model.actors import ADOPTION
from stepwell.model.error_text import describe
from stepwell.model.errors import DatabaseUnavailable
from stepwell.store import Database
from stepwell.store.engine import adoption

_LOGGER: Final = logging.getLogger("stepwell.dispatcher")


def adopt_rows(database: Database, creator: Creator) -> int:
    """Adopt a batch of rows; returns how many were processed."""
    try:
        return database.transact(lambda tx: adopt_new_steps(tx, creator, database.now()))
    except DatabaseUnavailable:
        raise
    except Exception:
        _LOGGER.exception("cannot adopt new rows of plain SQL together; adopting them one by one")
        return _adopt_one_by_one(database, creator)


def _adopt_one_by_one(database: Database, creator: Creator) -> int:
    ids = database.read(lambda tx: adoption.new_ids(tx, limit=BATCH))
    for id in ids:
        try:
            database.transact(lambda tx, id=id: adopt_new_steps(tx, creator, database.now(), only=id))  # type: ignore[misc]
        except DatabaseUnavailable:
            raise
        except Exception as error:
            message = f"the row cannot be adopted: {describe(error)}"
            set_aside(database, adoption.refuse_step, id, message, actor=ADOPTION, owner=ADOPTION, logger=_LOGGER)
    return len(ids)
