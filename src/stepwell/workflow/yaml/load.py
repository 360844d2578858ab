"""Files and texts of YAML become workflows, with every problem at its line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwell.model.errors import WorkflowDefinitionError
from stepwell.workflow.workflow import Workflow
from stepwell.workflow.yaml.document import Flaw, parse
from stepwell.workflow.yaml.flaws import Flaws
from stepwell.workflow.yaml.workflow import read_workflow

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
        in_document = Flaws()
        workflow = read_workflow(workflows, document, in_document, replace=replace)
        if workflow is not None:
            found.append(workflow)
            workflow.problems()  # adds to the flaws
        problems += in_document.found
    if not documents and not flaws:
        problems.append(Flaw(1, "no workflow in this file; a workflow has a name and step_templates"))
    certain = {flaw.line for flaw in problems if not flaw.is_ambiguity}
    problems = [flaw for flaw in problems if not flaw.is_ambiguity or flaw.line not in certain]
    problems.sort(key=lambda flaw: flaw.line)
    return found, list(dict.fromkeys(f"{name}:{flaw.line}: {flaw.message}" for flaw in problems))
