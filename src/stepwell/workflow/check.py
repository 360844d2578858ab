"""Checking YAML files from outside: `stepwell workflows check FILE…`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.app import Stepwell


def check_files(paths: Iterable[str | os.PathLike[str]], app: Stepwell) -> list[str]:
    """Everything that is wrong with YAML files of workflows, one line each, with file and line.

    The app has the jobs that they name, and the workflows with which they could be in conflict. Nothing is declared.
    """
    return app.workflows.problems_in(*paths)
