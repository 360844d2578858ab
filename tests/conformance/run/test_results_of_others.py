"""`current_step().results()`: what the steps before this one ended with."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from stepwell import NewStep, Results, Stepwell, StepwellError, current_step


def shown(results: Results) -> list[tuple[Any, ...]]:
    return [(step.name, str(step.state), step.result, step.error) for step in results]


def test_a_step_reads_its_dependencies_and_the_lower_indexes_of_its_block(app: Stepwell) -> None:
    seen: dict[str, Any] = {}

    @app.job
    def number(of: int) -> int:
        return of

    @app.job
    def look(name: str) -> None:
        seen[name] = shown(current_step().results())

    root = NewStep(action="number", arguments={"of": 0})
    left = NewStep(action="number", arguments={"of": 1}, label="left", parent=root, index=1)
    right = NewStep(action="number", arguments={"of": 2}, label="right", parent=root, index=1)
    first = NewStep(action="look", arguments={"name": "first"}, parent=root, index=1)
    both = NewStep(action="look", arguments={"name": "both"}, parent=root, index=2, depends_on=[left])
    graph = NewStep(action="look", arguments={"name": "graph"}, depends_on=[root])
    app.enqueue_many([root, left, right, first, both, graph])
    app.run_until_idle()
    assert seen["first"] == []
    assert seen["both"] == [
        ("left", "Completed", 1, None),
        ("right", "Completed", 2, None),
        ("look", "Completed", None, None),
    ]
    assert seen["graph"] == [("number", "Completed", 0, None)]


def test_a_later_step_of_a_root_block_reads_the_first_whose_uuid_names_the_block(app: Stepwell) -> None:
    seen: list[Any] = []

    @app.job
    def number(of: int) -> int:
        return of

    @app.job
    def look() -> None:
        seen.append(shown(current_step().results()))

    first = number.enqueue(1)
    app.enqueue("look", block=app.step(first).block_uuid, index=2)
    app.run_until_idle()
    assert seen == [[("number", "Completed", 1, None)]]


def test_a_later_step_reads_the_children_of_an_earlier_one(app: Stepwell) -> None:
    seen: list[Any] = []

    @app.job
    def part(of: int) -> int:
        return of

    @app.job
    def split() -> str:
        current_step().children([part.draft(1), part.draft(2)], part.draft(3))
        return "split"

    @app.job
    def merge() -> None:
        step = current_step()
        earlier = step.results().named("split")
        seen.append((earlier.result, [child.result for child in step.results(of=earlier)], list(step.results(of=step))))

    first = NewStep(action="split")
    app.enqueue_many([first, NewStep(action="merge", depends_on=[first])])
    app.run_until_idle()
    assert seen == [("split", [1, 2, 3], [])]


def test_a_handler_reads_what_failed_in_its_block_and_why(app: Stepwell) -> None:
    seen: list[Any] = []

    @app.job(retries=0)
    def fail(why: str) -> None:
        raise OSError(why)

    @app.job
    def fine() -> int:
        return 1

    @app.job
    def clean_up() -> None:
        results = current_step().results()
        seen.append((shown(results), [step.name for step in results.failed], [s.is_concluded for s in results]))

    root = NewStep(action="fine")
    app.enqueue_many(
        [
            root,
            NewStep(action="fine", parent=root),
            NewStep(action="fail", parent=root, arguments={"why": "the disk is full"}),
            NewStep(action="fine", parent=root, index=2, label="after"),
            NewStep(action="clean_up", parent=root, type="resolve-exception"),
        ]
    )
    app.run_until_idle()
    ((results, failed, concluded),) = seen
    assert results[0] == ("fine", "Completed", 1, None)
    assert results[1][:3] == ("fail", "Failed", None)
    assert "the disk is full" in results[1][3]
    assert results[2][0] == "after"
    assert failed == ["fail"]
    assert concluded == [True, False, False]


@pytest.mark.one_database
def test_a_result_has_the_type_of_the_jobs_signature(app: Stepwell) -> None:
    seen: list[Any] = []

    @app.job
    def today() -> date:
        return date(2026, 1, 2)

    @app.job
    def look() -> None:
        seen.append(current_step().results().named("today").result)

    first = NewStep(action="today")
    app.enqueue_many([first, NewStep(action="look", depends_on=[first])])
    app.run_until_idle()
    assert seen == [date(2026, 1, 2)]


@pytest.mark.one_database
def test_a_name_that_is_missing_or_not_unique_is_an_error_that_lists_the_names(app: Stepwell) -> None:
    seen: list[str] = []

    @app.job
    def part() -> None: ...

    @app.job
    def look() -> None:
        for name in ("part", "nobody"):
            with pytest.raises(StepwellError) as error:
                current_step().results().named(name)
            seen.append(str(error.value))

    parts = [NewStep(action="part"), NewStep(action="part")]
    app.enqueue_many([*parts, NewStep(action="look", depends_on=parts)])
    app.run_until_idle()
    assert seen == [
        "2 steps are named 'part'; the steps are: part",
        "no steps are named 'nobody'; the steps are: part",
    ]


_PROGRAM = """
import sys
from stepwell import NewStep, Stepwell, current_step

app = Stepwell({url!r})

@app.job
def number(of: int) -> int:
    return of

@app.job
async def number_later(of: int) -> int:
    return of

@app.job
def split() -> None:
    current_step().children([number.draft(3), number_later.draft(4)])

@app.job(retries=0)
def add() -> int:
    step = current_step()
    below = step.results(of=step.results().named("split"))
    return sum(each.result for each in [*step.results(), *below] if each.result is not None)

@app.job(retries=0)
async def add_later() -> int:
    return add.code()

@app.job(retries=0)
def look() -> list[int]:
    return [each.result for each in current_step().results()]

if __name__ == "__main__":
    before = [number.draft(1), number_later.draft(2), split.draft()]
    adding = [NewStep(action="add", depends_on=before), NewStep(action="add_later", depends_on=before)]
    *_, last = app.enqueue_many([*before, *adding, NewStep(action="look", depends_on=adding)])
    import threading
    running = threading.Thread(target=app.run, kwargs=dict(executor=sys.argv[1], slots=2))
    running.start()
    print(last.result(60))
    app.stop()
    running.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["thread", "async", "process"])
def test_results_can_be_read_in_every_executor(shared_database_url: str, executor: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM.format(url=shared_database_url))
    ended = subprocess.run(
        [sys.executable, str(program), executor], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.stdout.strip() == "[10, 10]", ended.stderr
