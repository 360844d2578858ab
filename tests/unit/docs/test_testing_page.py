"""The project that docs/testing.md shows: its files are written and its tests run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"


def test_the_tests_on_the_page_pass(pytester: pytest.Pytester) -> None:
    page = PAGE.read_text(encoding="utf-8")
    files = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", page, re.DOTALL))
    assert files.keys() == {"shop.py", "test_shop.py"}
    for name, text in files.items():
        (pytester.path / name).write_text(text, encoding="utf-8")
    [ini] = re.findall(r"```ini\n(.*?)```", page, re.DOTALL)
    pytester.makeini(ini + "pythonpath = .\n")
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)
