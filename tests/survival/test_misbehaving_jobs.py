"""Whatever a job does to its process, other steps are not affected and nothing is lost (SPEC 6, executors)."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from tests.survival.support import Well

NEIGHBOURS = [f"neighbour {number}" for number in range(10)]


def _neighbours_are_done(well: Well) -> None:
    """Each ran exactly once."""
    well.until(lambda: set(well.states(*NEIGHBOURS).values()) == {"Completed"})
    assert [len(well.entries("ended", label)) for label in NEIGHBOURS] == [1] * len(NEIGHBOURS)


def test_whatever_a_job_does_to_its_process_its_step_ends_in_the_right_state(well: Well) -> None:
    deadly = ("os._exit", "kill", "segfault")
    for deed in (*deadly, "interrupt", "unprintable", "strange", "spoil stdout", "fork and both return", "eat memory"):
        well.add(deed, deed)
    well.add("sys.exit", "sys.exit", cooldown=3600)
    for label in NEIGHBOURS:
        well.add(label)
    well.start("up", slots=3, options=["--max-memory", "512M"])
    _neighbours_are_done(well)

    for deed in deadly:
        well.until_states(**{deed: "Failed"})
        step = well[deed]
        assert (step.reason, step.rescues, step.retries, step.attempts) == ("poison", 4, 0, 4)
        assert well.path(deed).count(("Pending", "rescued")) == 3
    assert "exited with code 7" in str(well["os._exit"].error_message)
    assert "SIGKILL" in str(well["kill"].error_message)
    assert "SIGSEGV" in str(well["segfault"].error_message)

    well.until_states(
        **{
            "sys.exit": "Pending",
            "interrupt": "Failed",
            "unprintable": "Failed",
            "strange": "Failed",
            "spoil stdout": "Completed",
            "fork and both return": "Completed",
            "eat memory": "Failed",
        }
    )
    exited = well["sys.exit"]
    assert (exited.reason, exited.not_completed, exited.retries, exited.rescues) == ("not_completed", 1, 0, 0)
    assert "KeyboardInterrupt" in str(well["interrupt"].error_message)
    assert "its text cannot be printed" in str(well["unprintable"].error_message)
    assert well["strange"].reason == "unstorable_result"
    assert "MemoryError" in str(well["eat memory"].error_message)
    assert (well["spoil stdout"].response, well["spoil stdout"].rescues) == ("spoilt", 0)
    assert (well["fork and both return"].response, well["fork and both return"].rescues) == ("the slot", 0)


def test_in_threads_a_job_that_exits_or_is_interrupted_ends_only_itself(well: Well) -> None:
    well.add("sys.exit", "sys.exit", cooldown=3600)
    for deed in ("interrupt", "unprintable", "strange"):
        well.add(deed, deed)
    well.add("end unwritably", "end unwritably", max_retries=3)
    for label in NEIGHBOURS:
        well.add(label)
    well.start("up", executor="thread")
    _neighbours_are_done(well)
    well.until_states(**{"sys.exit": "Pending", "interrupt": "Failed", "unprintable": "Failed", "strange": "Failed"})
    well.until_states(**{"end unwritably": "Failed"})
    assert "the end of the run cannot be written" in str(well["end unwritably"].error_message)
    assert (well["sys.exit"].reason, well["sys.exit"].not_completed) == ("not_completed", 1)


def test_a_job_that_misuses_the_pipe_of_its_slot_cannot_hold_the_worker_up(well: Well) -> None:
    for deed in ("die in the middle of a word", "talk nonsense", "end unwritably", "speak from a fork"):
        well.add(deed, deed, max_retries=3)
    for label in NEIGHBOURS:
        well.add(label)
    well.start(slots=3)
    _neighbours_are_done(well)
    for deed in ("die in the middle of a word", "talk nonsense"):
        well.until_states(**{deed: "Failed"})
        assert (well[deed].reason, well[deed].rescues) == ("poison", 4)
    well.until_states(**{"end unwritably": "Failed", "speak from a fork": "Completed"})
    assert "the end of the run cannot be sent" in str(well["end unwritably"].error_message)
    assert well["end unwritably"].rescues == 0
    assert well["speak from a fork"].response == 5
    logs = well.app.database.read(lambda tx: tx.fetch("SELECT message FROM step_logs", {}))
    assert [row["message"] for row in logs] == ["from the slot"]


def test_a_job_that_holds_the_gil_beyond_the_lease_does_not_silence_its_worker(well: Well) -> None:
    seconds = 7.0
    queues = {"process": "candles", "thread": "indicators"}  # one worker for each, both at once
    for executor, queue in queues.items():
        well.add(executor, "hold the gil", seconds=seconds, queue=queue)
        # The lease is longer than this machine ever stands still.
        well.start(executor=executor, lease=6.0, options=("--queues", queue))
    well.until_states(process="Completed", thread="Completed")
    for executor in queues:
        step = well[executor]
        assert (step.attempts, step.rescues) == (1, 0)
        assert step.duration is not None
        assert step.duration >= seconds


def test_a_process_that_a_job_left_behind_blocks_no_other_step_and_ends_with_the_worker(well: Well) -> None:
    well.add("parent", "fork and leave")
    well.add("killed", "kill")
    for label in NEIGHBOURS:
        well.add(label)
    worker = well.start()
    well.until_states(parent="Completed", killed="Failed")
    _neighbours_are_done(well)
    left_behind = well["parent"].response
    assert worker.stop() == 0
    well.until_gone([left_behind])


def test_a_worker_goes_on_when_all_its_other_processes_are_killed(well: Well) -> None:
    """The out-of-memory killer chooses freely: slots, fork server, the process that beats for threads."""
    worker = well.start("worker", options=["-v"])
    well.add("before", "wait", go="never")
    well.until_began("before")
    for pid in worker.family():
        _kill(pid)
    well.until_began("before", 2)
    well.say("never")
    well.until_states(before="Completed")
    assert well["before"].rescues >= 1


def test_threads_keep_their_leases_when_their_heartbeat_process_is_killed(well: Well) -> None:
    worker = well.start(executor="thread")
    well.add("long", "wait", go="go")
    well.until_began("long")
    (heart,) = worker.family()
    _kill(heart)
    (another,) = well.until(lambda: worker.family() - {heart})
    assert another != heart
    well.say("go")
    well.until_states(long="Completed")
    assert (well["long"].attempts, well["long"].rescues) == (1, 0)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
