"""A nightly load: list the files, read each in a step of its own, join the rows, and store what is new."""

from __future__ import annotations

from dataclasses import dataclass

from stepwell import Stepwell, current_step

app = Stepwell("sqlite:///etl.db")
load = app.workflows().workflow("load", context={"properties": {"files": {"type": "integer", "default": 3}}})


@dataclass
class Rows:
    file: str
    numbers: list[int]


@load.step
def listing(files: int) -> list[str]:
    return [f"part-{number}.csv" for number in range(files)]


@load.step(each={"name": "listing"}, limit=4, retry_limit=5)
def read(name: str) -> Rows:
    number = int(name.removeprefix("part-").removesuffix(".csv"))
    if number % 10 == 9:
        current_step().skip("the file is empty")
    return Rows(name, [number, number + 1])


@load.step
def joined(read: list[Rows]) -> list[int]:
    return sorted({number for rows in read for number in rows.numbers})


@load.step
def stored(joined: list[int]) -> int:
    return len(joined)
