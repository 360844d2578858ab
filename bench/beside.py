"""The same drain with a million finished steps in the table, and with none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from bench.databases import settle
from bench.figures import Figure
from bench.load import NO_OP, Sizes
from bench.own import Crew, Place, measure_at
from bench.peers.servers import fresh, scratch
from bench.rows import behind_the_triggers
from bench.shapes import finished
from bench.timing import compare
from stepwell import Stepwell

AT_LEAST: Final = ">= 0.9"


def drain_beside_finished(database: str, sizes: Sizes, count: int, repetitions: int) -> Iterator[Figure]:
    """Two databases drained in turns: what slows the machine for a while slows both."""
    crew = Crew()
    with ExitStack() as stack:
        places: list[Place] = []
        for crowd in (0, count):
            directory = Path(stack.enter_context(scratch()))
            url = stack.enter_context(fresh(database, directory))
            places.append(Place(database, url, directory / "ledger"))
            with Stepwell(places[-1].app_url) as app:
                with behind_the_triggers(app.database) as loader:
                    finished(loader, crowd, loader.parent("Completed"))
                settle(app)
        times = compare([partial(_seconds, place, sizes, crew) for place in places], repetitions, warm_up=0)
        rates = [sizes.jobs / times.median(side) for side in (1, 0)]
        yield Figure(
            f"{NO_OP} beside {count:,} finished steps / beside none",
            database, 1 / times.ratio(1, 0), "ratio", AT_LEAST,
            f"medians {rates[0]:,.0f} and {rates[1]:,.0f} jobs/s of {crew.system}; {times.spread(1, 0)} (in seconds)",
        )  # fmt: skip


def _seconds(place: Place, sizes: Sizes, crew: Crew) -> float:
    shutil.rmtree(place.ledger, ignore_errors=True)
    (figure,) = measure_at(place, NO_OP, sizes, crew)
    if figure.value is None:
        raise RuntimeError(figure.detail)
    return sizes.jobs / figure.value
