"""What the web may import."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import stepwell.web

ENGINE = "stepwell.store.engine"


def test_the_web_asks_look_and_operate_and_calls_no_verb_of_the_store() -> None:
    """It names the rows that they return: classes. Row types and verbs share modules, so import-linter cannot tell."""
    folder = Path(str(stepwell.web.__file__)).parent
    imported = [(path, module, name) for path in folder.rglob("*.py") for module, name in of_the_engine(path)]
    assert imported
    verbs = [
        f"{path.relative_to(folder)}: {module}.{name}" for path, module, name in imported if not is_row(module, name)
    ]
    assert verbs == []


def of_the_engine(path: Path) -> list[tuple[str, str]]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    named = [(str(node.module), each.name) for node in nodes if isinstance(node, ast.ImportFrom) for each in node.names]
    whole = [(each.name, "") for node in nodes if isinstance(node, ast.Import) for each in node.names]
    return [(module, name) for module, name in named + whole if f"{module}.{name}".startswith(ENGINE)]


def is_row(module: str, name: str) -> bool:
    return isinstance(getattr(importlib.import_module(module), name, None), type)
