"""An app with tasks whose behaviour a test chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell import NOT_COMPLETED, Stepwell
from stepwell.processes.processes import MainProcesses

Behaviour = Callable[[], Any]


class Tasks:
    """Jobs `dependee`, `dependent` and `other`; each calls its behaviour, if it has one, and returns its result."""

    def __init__(self, app: Stepwell, processes: dict[str, Any] | None = None, **settings: Any) -> None:
        self.app = app
        self.does: dict[str, Behaviour] = {}
        self.runs: list[str] = []
        for name in ("dependee", "dependent", "other"):
            app.job(name=name)(self._code(name))
        task = {"timeout": 60, "cooldown": 5}
        self.processes: MainProcesses = app.main_processes.configure(
            {
                "main_processes": processes
                or {
                    "pair": {"tasks": [{"class": "dependent", "depend_on": "dependee"}, {"class": "dependee"}]},
                    "dependee": {"name": "dependee alone", "tasks": [{"class": "dependee"}]},
                    "dependent": {"name": "d", "tasks": [{"class": "dependent", "depend_on": "dependee"}]},
                    "both": {"tasks": [{"class": "other"}, {"class": "dependee"}]},
                },
                "tasks": {name: {"class": name, **task} for name in ("dependee", "dependent", "other")},
                **settings,
            }
        )

    def _code(self, name: str) -> Callable[[], Any]:
        def code() -> Any:
            self.runs.append(name)
            return self.does[name]() if name in self.does else None

        return code

    def not_completed(self, name: str) -> None:
        self.does[name] = lambda: NOT_COMPLETED

    def states(self) -> dict[str, str]:
        return {task.task_class: task.state for task in self.processes.tasks()}

    def step_of(self, name: str) -> int:
        (found,) = [task.step_id for task in self.processes.tasks() if task.task_class == name]
        assert found is not None
        return found
