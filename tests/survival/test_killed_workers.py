"""A worker killed at any point of a step's life: the step ends, and what had ended never runs again (SPEC 6, 11.4)."""

from __future__ import annotations

import random
import signal

import pytest

from stepwell import NewStep
from tests.survival import failpoints
from tests.survival.support import WAIT_SECONDS, Well

LABELS = [f"step {number}" for number in range(4)]


@pytest.mark.parametrize("point", failpoints.POINTS)
def test_a_worker_that_is_killed_loses_nothing_and_repeats_nothing_that_had_ended(well: Well, point: str) -> None:
    for label in LABELS:
        well.add(label)
    killed = well.start(failpoint=point)
    assert killed.process.wait(WAIT_SECONDS) == -signal.SIGKILL, killed.said
    ended = [label for label in LABELS if well.states(label)[label] == "Completed"]
    left = [label for label in LABELS if str(well[label].state) == "Running"]
    ran = {label: len(well.entries("began", label)) for label in LABELS}

    match point:
        case "before the claim is committed":
            assert not ended
            assert not left
            assert not any(ran.values())
        case "after the claim, before the start":
            assert left
            assert not ended
            assert not any(ran.values())
        case "after the end, before it is written":
            assert any(well.entries("ended", label) for label in left)
            assert not ended
        case "after the end is committed":
            assert ended

    well.start()
    well.until_all()
    for label in LABELS:
        assert well[label].rescues == (label in left)
        assert len(well.entries("ended", label)) >= 1
    for label in ended:
        assert len(well.entries("began", label)) == 1


def test_the_steps_of_a_worker_killed_while_they_ran_are_run_by_another(well: Well) -> None:
    """And its slots do not outlive it; and a compute that was recorded is not run a second time."""
    well.add("running", "wait", go="go")
    well.add("staged", action="three_stages", go="go")
    killed = well.start()
    well.until_began("running")
    well.until(lambda: well.entries("completes", "staged"))
    family = killed.family()
    assert len(family) >= 3
    killed.kill()
    well.until_gone(family)
    another = well.start()
    well.until_began("running", 2)
    well.until(lambda: len(well.entries("completes", "staged")) == 2)
    well.say("go")
    well.until_all()
    assert (well["running"].rescues, well["staged"].rescues) == (1, 1)
    assert (len(well.entries("computed", "staged")), len(well.entries("began", "child of staged"))) == (1, 1)
    assert another.stop() == 0


def test_the_heartbeat_process_of_a_thread_worker_does_not_outlive_it(well: Well) -> None:
    """Even when a job has forked, and the copy holds on to everything that the worker had open."""
    well.add("forks", "fork a copy")
    well.add("running", "wait", go="go")
    killed = well.start(executor="thread")
    well.until_states(forks="Completed")
    well.until_began("running")
    hearts = killed.family() - {well["forks"].response}
    assert len(hearts) == 1
    killed.kill()
    well.until_gone(hearts)
    well.until(lambda: well["running"].rescues == 1)


def test_workers_that_are_killed_again_and_again_finish_all_of_it(well: Well) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(20):
        well.add(f"step {number}", "nap", seconds=chance.uniform(0.0, 0.1))
    for number in range(5):
        root, *_ = well.app.enqueue_many(_family_tree(number))
        well.refs[f"root {number}"] = root
    completed: dict[str, int] = {}
    for _ in range(3):
        worker = well.start()
        goal = len(list(well.diary())) + chance.randrange(2, 12)
        well.until(lambda goal=goal: len(list(well.diary())) >= goal)  # type: ignore[misc]
        worker.kill()
        for label in well.refs:
            if str(well[label].state) == "Completed":
                completed.setdefault(label, len(well.entries("began", label)))
    well.start()
    well.until_all()
    assert {label: len(well.entries("began", label)) for label in completed} == completed


def _family_tree(number: int) -> list[NewStep]:
    root = NewStep(action="act", label=f"root {number}")
    return [root, *(NewStep(action="act", label=f"leaf {number}.{leaf}", parent=root) for leaf in range(2))]
