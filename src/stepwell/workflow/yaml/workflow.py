"""One document of YAML becomes a workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwell.workflow.declare.context import Context, context_of
from stepwell.workflow.declare.resolve import Header
from stepwell.workflow.declare.words import shown
from stepwell.workflow.template import DEFAULT_NAMESPACE
from stepwell.workflow.workflow import Workflow
from stepwell.workflow.yaml.document import Value
from stepwell.workflow.yaml.environments import read_environments
from stepwell.workflow.yaml.fields import ENVIRONMENT_KEYS, WORKFLOW_KEYS
from stepwell.workflow.yaml.flaws import Flaws
from stepwell.workflow.yaml.steps import StepReader

if TYPE_CHECKING:
    from stepwell.workflow.workflows import Workflows


def read_workflow(workflows: Workflows, root: Value, flaws: Flaws, *, replace: bool) -> Workflow[Any] | None:
    """The workflow of a document, as far as it can be read; what is wrong with it is added to the flaws."""
    if not isinstance(root.data, dict):
        flaws.add(root, "expected a mapping with name and step_templates")
        return None
    flaws.check_keys(root, WORKFLOW_KEYS, "the workflow")
    flaws.place_keys(0, root)
    flaws.place(0, {"": root.line})
    workflow: Workflow[Any] = Workflow(
        workflows,
        _header(root, flaws),
        replace=replace,
        environments=read_environments(root.keys.get("environments"), flaws),
        show=flaws.add_problem,
    )
    reader = StepReader(workflow, flaws)
    for step in _step_values(root, flaws):
        if isinstance(step.data, dict):
            reader.read(step)
        else:
            flaws.add(step, f"{shown(step.data)} is not a step; expected a mapping with name and handler")
    return workflow


def _header(root: Value, flaws: Flaws) -> Header:
    def data(key: str, default: Any) -> Any:
        return root.keys[key].data if key in root.keys else default

    if "name" not in root.keys:
        flaws.add(root, "name is missing; every workflow has one")
    return Header(
        namespace=data("namespace", DEFAULT_NAMESPACE),
        name=data("name", "unnamed"),
        version=_version(root.keys.get("version"), flaws),
        description=data("description", ""),
        context=_context(root.keys.get("context"), flaws),
    )


def _version(value: Value | None, flaws: Flaws) -> Any:
    if value is None:
        return "1"
    if isinstance(value.data, float):
        flaws.add(
            value,
            f'version: {value.written} is a number, in which 1.10 and 1.1 are the same; write "{value.written}" '
            "with quotes",
        )
        return value.written
    return str(value.data) if type(value.data) is int else value.data


def _context(value: Value | None, flaws: Flaws) -> Context:
    if value is None or value.data is None:
        return Context()
    if not isinstance(value.data, dict):
        flaws.add(value, f"context is {shown(value.data)}: expected a JSON schema")
        return Context()
    return context_of(value.data)


def _step_values(root: Value, flaws: Flaws) -> list[Value]:
    keys = [key for key in ENVIRONMENT_KEYS if key in root.keys]
    if len(keys) == 2:
        flaws.add(root.keys["steps"], "steps and step_templates are the same; use one of them")
    values = root.keys[keys[0]] if keys else Value([], root.line)
    if not isinstance(values.data, list):
        flaws.add(values, f"{keys[0]}: expected a list of steps, each beginning with - name")
    return values.items
