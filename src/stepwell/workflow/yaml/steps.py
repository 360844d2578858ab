"""The steps of a document of YAML become declarations."""

from __future__ import annotations

from typing import Any

from stepwell.workflow.declare.context import Context, context_of
from stepwell.workflow.declare.declaration import Declaration, shape_of
from stepwell.workflow.declare.problems import Problem
from stepwell.workflow.declare.registering import problems_of_code
from stepwell.workflow.declare.settings import inherited_settings
from stepwell.workflow.declare.words import shown, suggestion
from stepwell.workflow.steps import CodeStep, DeclaredStep, Gate
from stepwell.workflow.workflow import Workflow
from stepwell.workflow.yaml.document import Value
from stepwell.workflow.yaml.fields import GATE_KEYS, SETTINGS, STEP_KEYS
from stepwell.workflow.yaml.flaws import Flaws


class StepReader:
    """Adds the steps of one document to its workflow."""

    def __init__(self, workflow: Workflow[Any], flaws: Flaws) -> None:
        self._workflow = workflow
        self._flaws = flaws

    def read(self, value: Value) -> None:
        """Add the step of one mapping to the workflow."""
        name = value.keys["name"].data if "name" in value.keys else None
        if name is None:
            self._flaws.add(value, "name is missing; every step has one")
            name = f"unnamed_on_line_{value.line}"
        self._flaws.place_keys(value.line, value)
        self._flaws.place(value.line, {"": value.line})
        self._flaws.check_keys(value, STEP_KEYS, f"step {name!r}")
        data = {key: inner.data for key, inner in value.keys.items()}
        if not isinstance(data.get("description", ""), str):
            self._flaws.add(value.keys["description"], f"step {name!r}: description: expected text")
        settings = {SETTINGS[key]: data[key] for key in value.keys if key in SETTINGS}
        common: dict[str, Any] = {
            "name": name,
            "inputs": data.get("inputs") or {},
            "after": self._after(value, name),
            "when": data.get("when") or {},
            "each": data.get("each"),
            "trigger": data.get("trigger", "all_concluded"),
            "at": value.line,
        }
        if "gate" in value.keys:
            self._gate(value, common, settings)
        else:
            self._code(value, common, settings)

    def _after(self, value: Value, name: Any) -> tuple[Any, ...]:
        after: list[Any] = []
        if (one := value.keys.get("depends_on_step")) is not None:
            if isinstance(one.data, list):
                self._flaws.add(
                    one, f"step {name!r}: depends_on_step names one step; write depends_on_steps for a list"
                )
            after += one.data if isinstance(one.data, list) else [one.data]
        if (many := value.keys.get("depends_on_steps")) is not None:
            if not isinstance(many.data, list):
                self._flaws.add(many, f"step {name!r}: depends_on_steps is a list; write depends_on_step for one step")
            after += many.data if isinstance(many.data, list) else [many.data]
        for key in ("depends_on_step", "depends_on_steps"):
            if key in value.keys:
                self._flaws.place(value.line, {"after": value.keys[key].line})
        return tuple(each for each in after if each is not None)

    def _gate(self, value: Value, common: dict[str, Any], settings: dict[str, Any]) -> None:
        gate, name = value.keys["gate"], common["name"]
        problems: list[Problem] = []
        if "handler" in value.keys:
            problems.append(Problem("a gate runs no code; remove handler or gate", str(name), "handler", at=value.line))
        if not isinstance(gate.data, dict) and gate.data not in (True, None):
            problems.append(
                Problem(
                    f"gate is {shown(gate.data)}: expected true, or result and expires",
                    str(name),
                    "gate",
                    at=value.line,
                )
            )
        self._flaws.check_keys(gate, GATE_KEYS, f"the gate {name!r}")
        self._flaws.place_keys(value.line, gate)
        result = gate.keys.get("result")
        if "expires" in gate.keys:
            settings["expires"] = gate.keys["expires"].data
        if result is not None and not isinstance(result.data, dict):
            problems.append(
                Problem(f"result is {shown(result.data)}: expected a JSON schema", str(name), "result", at=value.line)
            )
            result = None
        answer = Context() if result is None else context_of(result.data, "result")
        step: DeclaredStep[Any] = Gate(self._workflow, name)
        self._workflow.add(
            Declaration(kind="gate", result=answer, settings=settings, problems=tuple(problems), **common), step
        )

    def _code(self, value: Value, common: dict[str, Any], settings: dict[str, Any]) -> None:
        name, jobs = str(common["name"]), self._workflow.app.jobs
        handler = value.keys.get("handler")
        action = handler.data if handler is not None else None
        job = jobs.get(action) if isinstance(action, str) else None
        problems: list[Problem] = []
        if handler is None:
            problems.append(
                Problem("handler is missing: name a registered job, or make it a gate", name, at=value.line)
            )
        elif job is None:
            hint = suggestion(str(action), sorted(jobs.actions()), "jobs")
            problems.append(
                Problem(f"no job {action!r} is registered with the app; {hint}", name, "handler", at=value.line)
            )
        else:
            problems += [Problem(message, name, "handler", at=value.line) for message in problems_of_code(job.code)]
            settings = {**inherited_settings(job), **settings}
        declaration = Declaration(
            kind="job" if common["each"] is None else "map",
            job=job,
            shape=None if job is None else shape_of(job.code),
            settings=settings,
            problems=tuple(problems),
            **common,
        )
        self._workflow.add(declaration, CodeStep(self._workflow, name, job or _missing))


def _missing() -> None:
    """Stands for code that is not registered."""
