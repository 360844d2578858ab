"""The name of an app: the given one, or its module and variable, the same in every process that runs the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from stepwell import Stepwell

PROGRAM = """
from stepwell import Stepwell
app = Stepwell("sqlite://")
if __name__ == "__main__":
    print(app.name)
"""


def test_a_given_name_wins_and_a_local_app_has_none() -> None:
    assert Stepwell("sqlite://", name="shop").name == "shop"
    assert not Stepwell("sqlite://").has_name()


def test_a_main_program_has_the_name_under_which_others_import_it(tmp_path: Path) -> None:
    (tmp_path / "shop_jobs.py").write_text(PROGRAM)
    for arguments in (["shop_jobs.py"], ["-m", "shop_jobs"], ["-c", "import shop_jobs; print(shop_jobs.app.name)"]):
        shown = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        assert shown.strip() == "shop_jobs:app"
