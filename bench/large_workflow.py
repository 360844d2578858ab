"""`python -m bench.large_workflow`: what a page of a workflow with 100,000 steps costs.

One declared workflow with a map over that many elements, and one step with that many children, half of them done. As in
`bench.million`: the time of the fifth-fastest of twenty answers, and what the database read for one. Each answer counts
the first chunk of the workflow, as the first one after a start of the server does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.databases import KINDS, settle
from bench.million import Question, milliseconds, reads_of
from bench.peers.servers import fresh, scratch
from bench.rows import behind_the_triggers
from bench.screens import asks
from stepwell import Stepwell

STEPS = 100_000


@dataclass(frozen=True, slots=True)
class Large:
    """Two large workflows, by their ids."""

    map: str  # declared
    tree: str
    first_child: int


def work(item: int) -> int:
    return item


def join(work: list[int]) -> int:
    return len(work)


def fill(app: Stepwell, steps: int = STEPS) -> Large:
    """A map whose elements wait, and a tree of which half has ended: one child in a thousand failed."""
    flow = app.workflows("shop").workflow("large")
    flow.step(each={"item": "context.items"})(work)
    flow.step()(join)
    run = flow.start({"items": list(range(steps))})
    runner = app.inline_runner(slots=1)
    while not app.lists.steps(parent=run.step("work").id, limit=1).rows:
        app.dispatch_once()
        runner.round()
    runner.close()
    with behind_the_triggers(app.database) as loader:
        root = loader.parent("Running")
        children = [
            loader.step("Failed" if number % 1000 == 7 else "Completed", parent=root)[0] for number in range(steps // 2)
        ]
        for _ in range(steps - steps // 2):
            loader.step(parent=root, status="open")
    settle(app)
    return Large(run.id, root.workflow, children[0])


def questions(large: Large) -> dict[str, Question]:
    found: dict[str, Question] = {}
    for name, workflow in (("map", large.map), ("children", large.tree)):
        base = f"/step-dispatcher/workflows/{workflow}"
        found[f"{name}, tree"] = asks(base)
        found[f"{name}, graph"] = asks(f"{base}?view=graph")
        found[f"{name}, timeline"] = asks(f"{base}?view=timeline")
    opened = f"/step-dispatcher/workflows/{large.tree}?open=g{large.first_child}"
    later = f"/step-dispatcher/workflows/{large.tree}?view=timeline&attempt=1&from={large.first_child + STEPS // 4}"
    return found | {
        "children, an opened stack": asks(opened),
        "children, a later page of the timeline": asks(later),
        "the list of workflows": asks("/step-dispatcher/workflows"),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.large_workflow", description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--database", action="append", choices=KINDS, help="this one only (default: both)")
    options = parser.parse_args(arguments)
    databases = options.database or list(KINDS)
    found: dict[str, list[str]] = {}
    for database in databases:
        prefix = "sqlite:///" if database == "sqlite" else ""
        with scratch() as place, fresh(database, Path(place)) as url, Stepwell(f"{prefix}{url}") as app:
            for name, question in questions(fill(app, options.steps)).items():
                question(app)
                cells = [f"{milliseconds(app, question):.1f}", f"{reads_of(app, question):,}"]
                found.setdefault(name, []).extend(cells)
    heads = [f"{database}: {what}" for database in databases for what in ("ms", "read")]
    print(f"| page | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}")
    for name, cells in found.items():
        print(f"| {name} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
