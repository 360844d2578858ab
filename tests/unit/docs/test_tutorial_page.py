"""The program that docs/tutorial.md shows: its module and the program that uses it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "tutorial.md"


def test_the_program_of_the_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    module, program = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "shop.py").write_text(module)
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout.strip() == program.rpartition("# ")[2].strip()
