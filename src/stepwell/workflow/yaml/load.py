"""YAML documents become workflows, with every problem at its line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwell.model.errors import WorkflowDefinitionError
from stepwell.workflow.declare.context import Context, context_of
from stepwell.workflow.declare.declaration import Declaration, shape_of
from stepwell.workflow.declare.problems import Problem
from stepwell.workflow.declare.registering import problems_of_code
from stepwell.workflow.declare.resolve import Header
from stepwell.workflow.declare.settings import inherited_settings
from stepwell.workflow.declare.words import shown, suggestion
from stepwell.workflow.steps import CodeStep, DeclaredStep, Gate
from stepwell.workflow.template import DEFAULT_NAMESPACE
from stepwell.workflow.workflow import Workflow
from stepwell.workflow.yaml.document import Flaw, Value, parse
from stepwell.workflow.yaml.fields import (
    ENVIRONMENT_KEYS,
    GATE_KEYS,
    MEANT,
    OVERRIDE_KEYS,
    SETTINGS,
    STEP_KEYS,
    WORKFLOW_KEYS,
    YAML_NAMES,
)

if TYPE_CHECKING:
    from stepwell.workflow.workflows import Workflows


def load_file(workflows: Workflows, path: Path, *, replace: bool = False) -> list[Workflow[Any]]:
    """The workflows of a file; raises `WorkflowDefinitionError`."""
    return _without_problems(*read_file(workflows, path, replace=replace))


def load_text(workflows: Workflows, text: str, name: str, *, replace: bool = False) -> list[Workflow[Any]]:
    """The workflows of a text; raises `WorkflowDefinitionError`."""
    return _without_problems(*read_text(workflows, text, name, replace=replace))


def _without_problems(found: list[Workflow[Any]], problems: list[str]) -> list[Workflow[Any]]:
    if problems:
        raise WorkflowDefinitionError(*problems)
    return found


def read_file(workflows: Workflows, path: Path, *, replace: bool = False) -> tuple[list[Workflow[Any]], list[str]]:
    """The workflows of a file, and what is wrong with them."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return [], [f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8"]
    except OSError as error:
        return [], [f"{path}: cannot be read: {error.strerror or error}"]
    return read_text(workflows, text, str(path), replace=replace)


def read_text(
    workflows: Workflows, text: str, name: str, *, replace: bool = False
) -> tuple[list[Workflow[Any]], list[str]]:
    """The workflows of a text, and what is wrong with them: in the order of their lines."""
    documents, flaws = parse(text)
    found: list[Workflow[Any]] = []
    problems = list(flaws)
    for document in documents:
        reader = _WorkflowReader(workflows, document, replace)
        workflow = reader.read()
        if workflow is not None:
            found.append(workflow)
            workflow.problems()  # adds to the flaws of the reader
        problems += reader.flaws
    if not documents and not flaws:
        problems.append(Flaw(1, "no workflow in this file; a workflow has a name and step_templates"))
    certain = {flaw.line for flaw in problems if not flaw.is_ambiguity}
    problems = [flaw for flaw in problems if not flaw.is_ambiguity or flaw.line not in certain]
    problems.sort(key=lambda flaw: flaw.line)
    return found, list(dict.fromkeys(f"{name}:{flaw.line}: {flaw.message}" for flaw in problems))


@dataclass(slots=True)
class _WorkflowReader:
    """Reads one document."""

    workflows: Workflows
    document: Value
    replace: bool
    flaws: list[Flaw] = field(default_factory=list)
    lines: dict[tuple[int, str], int] = field(default_factory=dict)  # by the line of the step (0: none) and key

    def read(self) -> Workflow[Any] | None:
        root = self.document
        if not isinstance(root.data, dict):
            self._flaw(root, "expected a mapping with name and step_templates")
            return None
        self._check_keys(root, WORKFLOW_KEYS, "the workflow")
        self.lines |= {(0, key): value.line for key, value in root.keys.items()} | {(0, ""): root.line}
        if "name" not in root.keys:
            self._flaw(root, "name is missing; every workflow has one")
        name = root.keys["name"].data if "name" in root.keys else "unnamed"
        header = Header(
            namespace=self._data("namespace", DEFAULT_NAMESPACE),
            name=name,
            version=self._version(),
            description=self._data("description", ""),
            context=self._context(root.keys.get("context")),
        )
        workflow: Workflow[Any] = Workflow(
            self.workflows, header, replace=self.replace, environments=self._environments(), show=self._show
        )
        for step in self._step_values(root):
            if isinstance(step.data, dict):
                self._step(workflow, step)
            else:
                self._flaw(step, f"{shown(step.data)} is not a step; expected a mapping with name and handler")
        return workflow

    def _show(self, problem: Problem) -> str:
        """A problem of the workflow becomes a flaw with its line."""
        keys = [problem.key, YAML_NAMES.get(problem.key, problem.key), problem.key.partition(".")[0], ""]
        places = [(problem.at, key) for key in keys] + [(0, "")]
        line = next(self.lines[place] for place in places if place in self.lines)
        text = problem.text(YAML_NAMES.get(problem.key, problem.key))
        self.flaws.append(Flaw(line, text))
        return text

    # the workflow -------------------------------------------------------------------------------------------

    def _data(self, key: str, default: Any) -> Any:
        return self.document.keys[key].data if key in self.document.keys else default

    def _version(self) -> Any:
        value = self.document.keys.get("version")
        if value is None:
            return "1"
        if isinstance(value.data, float):
            self._flaw(
                value,
                f'version: {value.written} is a number, in which 1.10 and 1.1 are the same; write "{value.written}" '
                "with quotes",
            )
            return value.written
        return str(value.data) if type(value.data) is int else value.data

    def _context(self, value: Value | None) -> Context:
        if value is None or value.data is None:
            return Context()
        if not isinstance(value.data, dict):
            self._flaw(value, f"context is {shown(value.data)}: expected a JSON schema")
            return Context()
        return context_of(value.data)

    def _step_values(self, owner: Value) -> list[Value]:
        keys = [key for key in ENVIRONMENT_KEYS if key in owner.keys]
        if len(keys) == 2:
            self._flaw(owner.keys["steps"], "steps and step_templates are the same; use one of them")
        values = owner.keys[keys[0]] if keys else Value([], owner.line)
        if not isinstance(values.data, list):
            self._flaw(values, f"{keys[0]}: expected a list of steps, each beginning with - name")
        return values.items

    # steps --------------------------------------------------------------------------------------------------

    def _step(self, workflow: Workflow[Any], value: Value) -> None:
        name = value.keys["name"].data if "name" in value.keys else None
        if name is None:
            self._flaw(value, "name is missing; every step has one")
            name = f"unnamed_on_line_{value.line}"
        self.lines |= {(value.line, key): inner.line for key, inner in value.keys.items()}
        self.lines[value.line, ""] = value.line
        self._check_keys(value, STEP_KEYS, f"step {name!r}")
        data = {key: inner.data for key, inner in value.keys.items()}
        if not isinstance(data.get("description", ""), str):
            self._flaw(value.keys["description"], f"step {name!r}: description: expected text")
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
            self._gate(workflow, value, common, settings)
        else:
            self._code(workflow, value, common, settings)

    def _after(self, value: Value, name: Any) -> tuple[Any, ...]:
        after: list[Any] = []
        if (one := value.keys.get("depends_on_step")) is not None:
            if isinstance(one.data, list):
                self._flaw(one, f"step {name!r}: depends_on_step names one step; write depends_on_steps for a list")
            after += one.data if isinstance(one.data, list) else [one.data]
        if (many := value.keys.get("depends_on_steps")) is not None:
            if not isinstance(many.data, list):
                self._flaw(many, f"step {name!r}: depends_on_steps is a list; write depends_on_step for one step")
            after += many.data if isinstance(many.data, list) else [many.data]
        for key in ("depends_on_step", "depends_on_steps"):
            if key in value.keys:
                self.lines[value.line, "after"] = value.keys[key].line
        return tuple(each for each in after if each is not None)

    def _gate(self, workflow: Workflow[Any], value: Value, common: dict[str, Any], settings: dict[str, Any]) -> None:
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
        self._check_keys(gate, GATE_KEYS, f"the gate {name!r}")
        self.lines |= {(value.line, key): inner.line for key, inner in gate.keys.items()}
        result = gate.keys.get("result")
        if "expires" in gate.keys:
            settings["expires"] = gate.keys["expires"].data
        if result is not None and not isinstance(result.data, dict):
            problems.append(
                Problem(f"result is {shown(result.data)}: expected a JSON schema", str(name), "result", at=value.line)
            )
            result = None
        answer = Context() if result is None else context_of(result.data, "result")
        step: DeclaredStep[Any] = Gate(workflow, name)
        workflow.add(
            Declaration(kind="gate", result=answer, settings=settings, problems=tuple(problems), **common), step
        )

    def _code(self, workflow: Workflow[Any], value: Value, common: dict[str, Any], settings: dict[str, Any]) -> None:
        name, jobs = str(common["name"]), self.workflows.app.jobs
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
        workflow.add(declaration, CodeStep(workflow, name, job or _missing))

    # environments -------------------------------------------------------------------------------------------

    def _environments(self) -> dict[str, dict[str, dict[str, Any]]]:
        """By environment and step; each environment has steps as a mapping, or as a list with names."""
        declared = self.document.keys.get("environments")
        if declared is None or declared.data is None:
            return {}
        if not isinstance(declared.data, dict):
            self._flaw(declared, "environments: expected a mapping from the names of environments to steps")
            return {}
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for name, environment in declared.keys.items():
            self.lines[0, f"environments.{name}"] = environment.line
            self._check_keys(environment, ENVIRONMENT_KEYS, f"environment {name!r}")
            found[name] = dict(self._overrides(name, environment))
        return found

    def _overrides(self, environment: str, value: Value) -> Iterator[tuple[str, dict[str, Any]]]:
        for key in ENVIRONMENT_KEYS:
            steps = value.keys.get(key)
            if steps is None:
                continue
            named: Sequence[tuple[Any, Value]] = list(steps.keys.items())
            if isinstance(steps.data, list):
                named = [(item.keys["name"].data if "name" in item.keys else None, item) for item in steps.items]
            for name, step in named:
                if not isinstance(name, str) or not isinstance(step.data, dict):
                    self._flaw(step, f"environment {environment!r}: expected the name of a step and its settings")
                    continue
                self._check_keys(step, ("name", *OVERRIDE_KEYS), f"environment {environment!r}: step {name!r}")
                names = {**SETTINGS, "expires": "expires"}
                yield name, {names[key]: inner.data for key, inner in step.keys.items() if key in names}

    # flaws --------------------------------------------------------------------------------------------------

    def _check_keys(self, value: Value, known: Sequence[str], whose: str) -> None:
        for key, inner in value.keys.items():
            if key not in known:
                meant = MEANT.get(key)
                hint = f"did you mean {meant!r}?" if meant in known else suggestion(key, known, "keys")
                self._flaw(inner, f"{whose}: unknown key {key!r}; {hint}")

    def _flaw(self, value: Value, message: str) -> None:
        self.flaws.append(Flaw(value.line, message))


def _missing() -> None:
    """Stands for code that is not registered."""
