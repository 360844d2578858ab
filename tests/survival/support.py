"""Shared by the survival tests: a database, real worker processes on it, and a log of every run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stepwell import Step, StepRef, Stepwell
from tests.survival import jobs
from tests.survival.failpoints import VARIABLE

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 90.0  # for what takes a second on an idle machine and half a minute on an overloaded one
LEASE_SECONDS = 1.5  # short, but long enough for three heartbeats on a busy machine


@dataclass(frozen=True)
class Entry:
    """A line of the run log."""

    event: str
    label: str
    facts: dict[str, str]

    @property
    def run(self) -> tuple[str, str]:
        return self.label, self.facts["token"]

    @property
    def pid(self) -> int:
        return int(self.facts["pid"])


class WorkerProcess:
    """`stepwell up` or `stepwell worker`, as a user starts it."""

    def __init__(
        self, url: str, folder: Path, command: str, options: Iterable[str], environment: dict[str, str]
    ) -> None:
        self.log = folder / f"{command}-{time.monotonic_ns()}.log"
        arguments = [sys.executable, "-m", "stepwell.cli", command, "--app", "tests.survival.jobs:make", *options]
        environment = {**os.environ, jobs.DATABASE: url, jobs.FOLDER: str(folder), **environment}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                arguments, stdout=log, stderr=log, cwd=ROOT, env=environment, start_new_session=True
            )
        self._children: set[int] = set()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return self.log.read_text()

    def descendant_pids(self) -> set[int]:
        """Its current descendants, and those seen earlier that are still alive."""
        self._children |= descendants(self.pid)
        self._children = {pid for pid in self._children if is_alive(pid)}
        return self._children

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        """Stop it gracefully; returns its exit code. One that is still starting would be killed by the signal."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self.process.poll() is None and not catches(self.pid, signal.SIGTERM) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.descendant_pids()
        self.signal(signal.SIGTERM)
        return self.process.wait(WAIT_SECONDS)

    def kill(self) -> None:
        self.descendant_pids()
        self.process.kill()
        self.process.wait(WAIT_SECONDS)

    def end(self) -> None:
        """Kill it with its descendants, at the end of a test."""
        pids = self.descendant_pids() | {self.pid} if self.process.poll() is None else self.descendant_pids()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(WAIT_SECONDS)


class Cluster:
    """A database with steps, and workers on it; the test itself ticks and reaps while it waits."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.app = Stepwell(url)
        jobs.define(self.app)
        self.refs: dict[str, StepRef] = {}
        self.workers: list[WorkerProcess] = []
        self.reaper = self.app.reaper()
        self.dispatcher = self.app.dispatcher()

    # do -------------------------------------------------------------------------------------------------

    def start(
        self,
        command: str = "worker",
        *,
        slots: int = 2,
        executor: str = "process",
        options: Iterable[str] = (),
        failpoint: str = "",
        url: str = "",
        lease: float = LEASE_SECONDS,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> WorkerProcess:
        """Start a worker. It takes work some time later: wait for what it does."""
        chosen = ["--slots", str(slots), "--executor", executor, "--lease", str(lease), *options]
        variables = {**environment, VARIABLE: failpoint} if failpoint else {**environment}
        worker = WorkerProcess(url or self.url, self.folder, command, chosen, variables)
        self.workers.append(worker)
        return worker

    def add(
        self,
        label: str,
        behaviour: str = "",
        *,
        action: str = "act",
        go: str = "",
        seconds: float = 0.0,
        **settings: Any,
    ) -> StepRef:
        arguments = {
            name: value for name, value in (("behaviour", behaviour), ("go", go), ("seconds", seconds)) if value
        }
        self.refs[label] = self.app.enqueue(action, arguments, label=label, **{"max_retries": 0, **settings})
        return self.refs[label]

    def release(self, name: str) -> None:
        """Create the file that runs wait for (`go`)."""
        (self.folder / name).touch()

    def close(self) -> None:
        for worker in self.workers:
            worker.end()
        self.app.close()

    # look -----------------------------------------------------------------------------------------------

    def __getitem__(self, label: str) -> Step:
        return self.app.step(self.refs[label])

    def states(self, *labels: str) -> dict[str, str]:
        return {label: str(self[label].state) for label in labels or self.refs}

    def path(self, label: str) -> list[tuple[str, str | None]]:
        """The states that a step went through, with their reasons."""
        return [(str(change.to_state), change.reason) for change in self.app.history(self.refs[label])]

    def rescues(self, label: str) -> int:
        """How many times it was rescued in its life, whether or not the death counted against it."""
        return sum(reason == "rescued" for _, reason in self.path(label))

    def run_log(self) -> Iterator[Entry]:
        file = self.folder / "run_log"
        for line in file.read_text().splitlines() if file.exists() else ():
            words = line.split(" ")
            facts = [word for word in words if "=" in word]
            label = " ".join(word for word in words[1:] if "=" not in word)
            yield Entry(words[0], label, dict(fact.split("=", 1) for fact in facts))

    def entries(self, event: str, label: str) -> list[Entry]:
        return [entry for entry in self.run_log() if entry.event == event and entry.label == label]

    def runs(self, event: str = "started") -> Counter[tuple[str, str]]:
        """How many times each claim of each step started."""
        return Counter(entry.run for entry in self.run_log() if entry.event == event)

    # wait -----------------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], Any], *, reap: bool = True, tick: bool = True) -> Any:
        """Wait for a condition; meanwhile the test acts as dispatcher and reaper."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            if tick:
                self.dispatcher.round()
            if reap:
                self.reaper.round()
            if found := condition():
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"timed out; {self.states()}\n{self._logs()}")
            time.sleep(0.02)

    def until_states(self, **expected: str) -> None:
        self.until(lambda: self.states(*expected) == expected)

    def until_started(self, label: str, times: int = 1) -> Entry:
        self.until(lambda: len(self.entries("started", label)) >= times)
        return self.entries("started", label)[-1]

    def until_heartbeats(self, count: int) -> None:
        """Wait until the only worker has written this many heartbeats, so that it has run many rounds."""
        seen: set[object] = set()

        def enough() -> bool:
            seen.update(row.heartbeat_at for row in self.app.workers())
            return len(seen) > count

        self.until(enough)

    def until_all(self, state: str = "Completed") -> None:
        self.until(lambda: set(self.states().values()) == {state})

    def until_gone(self, pids: Iterable[int]) -> None:
        self.until(lambda: not any(map(is_alive, pids)), reap=False, tick=False)

    def check(self) -> None:
        """The invariants hold, whatever was killed."""
        assert [str(violation) for violation in self.app.check_invariants()] == []
        assert self.app.sweep() == []
        twice = {run: times for run, times in self.runs().items() if times > 1}
        assert not twice, f"one claim ran its code more than once: {twice}"

    def _logs(self) -> str:
        return "\n".join(f"--- {worker.log.name}\n{worker.output}" for worker in self.workers)


def descendants(pid: int) -> set[int]:
    """All descendants, by parent id; a process whose parent has died is not found."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (facts := _stat(int(entry.name))):
            parents.setdefault(facts[1], []).append(int(entry.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found.update(children)
        waiting += children
    return found


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    facts = _stat(pid)
    return facts is not None and facts[0] not in "ZX"


def is_suspended(pid: int) -> bool:
    facts = _stat(pid)
    return facts is not None and facts[0] in "Tt"


def catches(pid: int, number: int) -> bool:
    """Whether the process has installed a handler for this signal."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return words[0], int(words[1])
