"""A template as YAML, from which the same template is loaded."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, Final

from stepwell.define.registry import Registry
from stepwell.workflow.declare.settings import inherited_settings, read_settings
from stepwell.workflow.template import CONTEXT, DEFAULT_NAMESPACE, Condition, Input, StepTemplate, Template
from stepwell.workflow.yaml.document import ambiguity_of
from stepwell.workflow.yaml.fields import SETTINGS, YAML_NAMES

_PLAIN: Final = re.compile(r"[A-Za-z_/$][A-Za-z0-9_./$ ()-]*(?<! )")  # needs no quotes, whatever reads it


def export(template: Template, jobs: Registry) -> str:
    """The YAML of a template; `jobs` have the settings that its steps inherit unless the YAML says otherwise."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 10**6  # a line that is wrapped is harder to compare
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    yaml.dump(_quoted(dict(_workflow(template, jobs))), stream)
    return stream.getvalue()


def _workflow(template: Template, jobs: Registry) -> Iterator[tuple[str, Any]]:
    if template.namespace != DEFAULT_NAMESPACE:
        yield "namespace", template.namespace
    yield "name", template.name
    yield "version", template.version
    if template.description:
        yield "description", template.description
    if template.context_schema is not None:
        yield "context", template.context_schema
    yield "step_templates", [dict(_step(step, jobs)) for step in template]
    if template.environments:
        yield (
            "environments",
            {
                name: {"steps": {step: _settings(settings) for step, settings in overrides.items()}}
                for name, overrides in template.environments.items()
            },
        )


def _step(step: StepTemplate, jobs: Registry) -> Iterator[tuple[str, Any]]:
    yield "name", step.name
    if step.kind == "gate":
        gate = {"result": step.result_schema, "expires": None if step.expires is None else _number(step.expires)}
        yield "gate", {key: value for key, value in gate.items() if value is not None} or True
    else:
        yield "handler", step.action
    if step.after:
        yield "depends_on_steps", list(step.after)
    if inputs := {each.parameter: str(each.source) for each in step.inputs if not _is_automatic(each)}:
        yield "inputs", inputs
    if step.each is not None:
        yield "each", {step.each.parameter: str(step.each.source)}
    if step.conditions:
        yield "when", {str(each.path): _values(each) for each in step.conditions}
    if step.trigger != "all_concluded":
        yield "trigger", step.trigger
    yield from _settings(_changed(step, jobs)).items()


def _is_automatic(each: Input) -> bool:
    """Whether the name of the parameter is enough."""
    path = str(each.source)
    return path == each.parameter or path == f"{CONTEXT}.{each.parameter}"


def _values(condition: Condition) -> Any:
    is_one = len(condition.values) == 1 and not isinstance(condition.values[0], list)
    return condition.values[0] if is_one else list(condition.values)


def _changed(step: StepTemplate, jobs: Registry) -> dict[str, Any]:
    """The settings that are not the defaults, or that the job would set otherwise."""
    if step.kind == "gate":
        return {"skippable": True} if step.skippable else {}
    job = jobs.get(step.action)
    inherited = {} if job is None else read_settings(inherited_settings(job), "job")[0]
    default = StepTemplate(name=step.name)
    return {
        key: getattr(step, key)
        for key in SETTINGS.values()
        if getattr(step, key) != getattr(default, key)
        or inherited.get(key, getattr(default, key)) != getattr(step, key)
    }


def _settings(settings: dict[str, Any]) -> dict[str, Any]:
    return {YAML_NAMES.get(key, key): _number(value) for key, value in settings.items()}


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _quoted(value: Any) -> Any:
    """The same data, with quotes around text that another reader of YAML could take for something else."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, dict):
        return {_quoted(key): _quoted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_quoted(item) for item in value]
    if not isinstance(value, str) or (_PLAIN.fullmatch(value) and ambiguity_of(value) is None and not _is_word(value)):
        return value
    return DoubleQuotedScalarString(value)


def _is_word(text: str) -> bool:
    """Whether YAML reads it as a value of its own."""
    return text.lower() in ("true", "false", "null")
