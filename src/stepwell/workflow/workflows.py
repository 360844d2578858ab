"""`app.workflows`: the workflows of an app, by namespace, name and version."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, overload

from stepwell.model.errors import WorkflowDefinitionError, WorkflowNotFound
from stepwell.model.ids import uuids_like
from stepwell.store.engine import workflows as verbs
from stepwell.store.engine.workflows import ListedWorkflow
from stepwell.store.filters import check_page
from stepwell.workflow.declare.context import context_of
from stepwell.workflow.declare.resolve import Header
from stepwell.workflow.declare.words import suggestion, version_key
from stepwell.workflow.live.check_live import LiveProblem, check_live
from stepwell.workflow.request import RequestOptions
from stepwell.workflow.run import Run
from stepwell.workflow.template import DEFAULT_NAMESPACE, Template
from stepwell.workflow.workflow import Workflow

if TYPE_CHECKING:
    from stepwell.app import Stepwell

C = TypeVar("C")
_NEWEST: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"


class Workflows:
    """The workflows of an app. `app.workflows("shop")` is a namespace; without a name, it is the default one."""

    def __init__(self, app: Stepwell, *, environment: str | None = None) -> None:
        self.app = app
        self._environment = environment
        self._declared: list[Workflow[Any]] = []

    @property
    def environment(self) -> str | None:
        """The environment whose overrides apply: the setting `app.environment` (`STEPWELL_ENV`), unless it was set."""
        return self._environment or self.app.environment

    @environment.setter
    def environment(self, name: str | None) -> None:
        self._environment = name

    def __call__(self, namespace: str = DEFAULT_NAMESPACE) -> Namespace:
        return Namespace(self, namespace)

    def __iter__(self) -> Iterator[Workflow[Any]]:
        """The workflows that are declared, each version by itself."""
        return iter(self._by_key().values())

    def add(self, workflow: Workflow[Any]) -> None:
        self._declared.append(workflow)

    # YAML -------------------------------------------------------------------------------------------------

    def load(self, path: str | os.PathLike[str], *, replace: bool = False) -> list[Workflow[Any]]:
        """Declare the workflows of a YAML file; raises `WorkflowDefinitionError` with every problem and its line."""
        from stepwell.workflow.yaml.load import load_file

        return self._loaded(load_file(self, Path(path), replace=replace))

    def load_yaml(self, text: str, *, name: str = "<yaml>", replace: bool = False) -> list[Workflow[Any]]:
        """The same for a text; `name` stands for the file in messages."""
        from stepwell.workflow.yaml.load import load_text

        return self._loaded(load_text(self, text, name, replace=replace))

    def export(self, template: Template) -> str:
        """The YAML of a template, from which the same template is loaded."""
        from stepwell.workflow.yaml.export import export

        return export(template, self.app.jobs)

    def problems_in(self, *paths: str | os.PathLike[str]) -> list[str]:
        """Everything that is wrong with YAML files, one line each; nothing is declared."""
        from stepwell.workflow.yaml.load import read_file

        before, found = len(self._declared), list[str]()
        try:
            for path in paths:
                workflows, problems = read_file(self, Path(path))
                self._declared += workflows
                found += problems or [f"{path}: {each}" for one in workflows for each in self._conflicts(one)]
        finally:
            del self._declared[before:]
        return found

    def _loaded(self, workflows: list[Workflow[Any]]) -> list[Workflow[Any]]:
        before = len(self._declared)
        self._declared += workflows
        try:
            for workflow in workflows:
                self.registered(workflow)
        except WorkflowDefinitionError:
            del self._declared[before:]
            raise
        return workflows

    # find -------------------------------------------------------------------------------------------------

    def check(self) -> list[Template]:
        """The templates of all workflows; raises `WorkflowDefinitionError` with every problem of all of them."""
        found = [problem for workflow in self._declared for problem in workflow.problems()]
        found = found or [problem for workflow in self._declared for problem in self._conflicts(workflow)]
        if found:
            raise WorkflowDefinitionError(*dict.fromkeys(found))
        return [workflow.check() for workflow in self]

    def check_live(self, *, page_size: int = 100) -> Iterator[LiveProblem]:
        """What unfinished steps of live workflows will receive and the code of this app cannot take; before a deploy.

        Every stored context, result and element that such a step takes is decoded with the annotations of its job.
        Steps whose job is not registered here are left out. `page_size` steps are in memory at a time.
        """
        return check_live(self.app.database, self.app.jobs, page_size)

    def get(self, name: str, *, namespace: str = DEFAULT_NAMESPACE, version: str | int | None = None) -> Workflow[Any]:
        """A workflow by its name; the newest version, if none is given."""
        versions = {key[2]: workflow for key, workflow in self._by_key().items() if key[:2] == (namespace, name)}
        wanted = max(versions, key=version_key, default=None) if version is None else str(version)
        if wanted is None or wanted not in versions:
            raise WorkflowNotFound(self._not_found(namespace, name, wanted, list(versions)))
        return versions[wanted]

    def start(
        self,
        name: str,
        context: Any = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        version: str | int | None = None,
        connection: Any = None,
        **request: Unpack[RequestOptions],
    ) -> Run:
        """Start a workflow by its name: the newest version, if none is given."""
        return self.get(name, namespace=namespace, version=version).start(context, connection=connection, **request)

    def registered(self, workflow: Workflow[Any]) -> Workflow[Any]:
        """The workflow that is registered under its version; raises if another one has this version."""
        workflow.check()
        if conflicts := list(self._conflicts(workflow)):
            raise WorkflowDefinitionError(*conflicts)
        return self._by_key().get(workflow.key, workflow)

    def newest(
        self, *, state: str | None = None, name: str | None = None, before: str | None = None, limit: int = 20
    ) -> list[ListedWorkflow]:
        """The workflows that were started last (before the one with the id `before`), with their steps in numbers."""
        check_page(limit)
        at = _NEWEST if before is None else before
        return self.app.database.read(
            lambda tx: verbs.newest_workflows(tx, state=state, name=name, before=at, limit=limit)
        )

    def ids_like(self, beginning: str) -> list[str]:
        """The ids of at most ten workflows that begin with this."""
        between = uuids_like(beginning)
        if between is None:
            return []
        return self.app.database.read(lambda tx: verbs.workflow_ids_between(tx, first=between[0], last=between[1]))

    def run(self, workflow_id: str) -> Run:
        """A workflow that was started, by its id."""
        return Run(self.app, workflow_id)

    def _by_key(self) -> dict[tuple[str, str, str], Workflow[Any]]:
        """The first declaration of each version, or the last one that replaces others."""
        found: dict[tuple[str, str, str], Workflow[Any]] = {}
        for workflow in self._declared:
            if workflow.replace or workflow.key not in found:
                found[workflow.key] = workflow
        return found

    def _conflicts(self, workflow: Workflow[Any]) -> Iterator[str]:
        """The same version declared twice, with other content."""
        kept = self._by_key().get(workflow.key, workflow)
        replaced = self._declared.index(workflow) < self._declared.index(kept) if kept is not workflow else False
        if kept is workflow or replaced or kept.problems() or workflow.problems():
            return
        if kept.check().content_hash() != workflow.check().content_hash():
            yield (
                f"{workflow} is declared twice with different content; give the new one another version, or replace "
                "the old one in development (replace=True)"
            )

    def _not_found(self, namespace: str, name: str, version: str | None, versions: list[str]) -> str:
        whole = f"{namespace}.{name}"
        if versions:
            known = ", ".join(sorted(versions, key=version_key))
            return f"no workflow {whole} version {version} is declared; versions: {known}"
        elsewhere = [key[0] for key in self._by_key() if f"{key[0]}.{key[1]}" == name or key[1] == name]
        if elsewhere:
            plain = name.removeprefix(f"{elsewhere[0]}.")
            return f"no workflow {whole} is declared; did you mean {plain!r} in the namespace {elsewhere[0]!r}?"
        names = list(dict.fromkeys(f"{key[0]}.{key[1]}" for key in self._by_key()))
        return f"no workflow {whole} is declared; {suggestion(whole, names, 'workflows')}"


class Namespace:
    """The workflows of one namespace; it is also the first part of the names of their actions."""

    def __init__(self, workflows: Workflows, name: str) -> None:
        self._workflows = workflows
        self.name = name

    @overload
    def workflow(
        self,
        name: str,
        *,
        context: type[C],
        version: str | int = "1",
        description: str = "",
        environments: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
        replace: bool = False,
    ) -> Workflow[C]: ...
    @overload
    def workflow(
        self,
        name: str,
        *,
        context: Mapping[str, Any] | None = None,
        version: str | int = "1",
        description: str = "",
        environments: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
        replace: bool = False,
    ) -> Workflow[Any]: ...
    def workflow(
        self,
        name: str,
        *,
        context: Any = None,
        version: str | int = "1",
        description: str = "",
        environments: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
        replace: bool = False,
    ) -> Workflow[Any]:
        """Declare a workflow. `context` is a model or a JSON schema; `replace` overwrites the same version."""
        header = Header(
            namespace=self.name,
            name=name,
            version=str(version) if type(version) is int else version,
            description=description,
            context=context_of(dict(context) if isinstance(context, Mapping) else context),
        )
        made: Workflow[Any] = Workflow(self._workflows, header, replace=replace, environments=environments)
        self._workflows.add(made)
        return made

    def start(
        self, name: str, context: Any = None, *, version: str | int | None = None, **request: Unpack[RequestOptions]
    ) -> Run:
        """Start a workflow of this namespace by its name."""
        return self._workflows.start(name, context, namespace=self.name, version=version, **request)
