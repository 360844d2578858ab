"""What a program loads: the code of a feature only when it is used, and once."""

from __future__ import annotations

import subprocess
import sys
import threading

from stepwell.model.once import once

_FEATURES = (
    "workflow",
    "schedule.schedules",
    "schedule.engine",
    "processes",
    "web",
    "service.config",
    "operate.operations",
)


def _run(code: str) -> list[str]:
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return ended.stdout.split()


def test_a_program_that_defines_jobs_and_enqueues_loads_no_other_feature() -> None:
    loaded = _run(
        "import sys\n"
        "from stepwell import Stepwell\n"
        "app = Stepwell('sqlite://')\n"
        "@app.job()\n"
        "def work() -> None: ...\n"
        "work.enqueue()\n"
        "print(*sys.modules)"
    )
    assert [name for name in loaded if name.startswith(tuple(f"stepwell.{each}" for each in _FEATURES))] == []
    assert "asyncio" not in loaded


def test_every_attribute_of_an_app_is_there_when_it_is_used() -> None:
    names = (
        "workflows schedules cron main_processes parts retention reader figures lists actions operations "
        "workflow_engine process_engine schedule_engine"
    )
    loaded = _run(
        "from stepwell import Stepwell\n"
        "app = Stepwell('sqlite://')\n"
        f"names = {names.split()}\n"
        "print(*[type(getattr(app, name)).__name__ for name in names if getattr(app, name) is getattr(app, name)])"
    )
    assert len(loaded) == len(names.split())


def test_what_is_made_on_first_use_is_made_once_for_all_threads() -> None:
    begun, made = threading.Barrier(8), list[object]()

    class Owner:
        @once
        def value(self) -> object:
            made.append(object())
            return made[-1]

    owner, seen = Owner(), list[object]()

    def look() -> None:
        begun.wait()
        seen.append(owner.value)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert seen == made * 8
