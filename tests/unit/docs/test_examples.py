"""Every example of the README and the documentation runs and prints what it says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), 1)
    # Other tests run a file of tests (test_testing_page.py) and the program of the tutorial (test_tutorial_page.py).
    if not block.startswith(("# test_", "import shop"))
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_the_documentation_runs(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    try:
        exec(compile(example, "example", "exec"), names)
    finally:
        if hasattr(app := names.get("app"), "close"):
            app.close()


def test_the_first_example_of_the_readme_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    names["app"].close()  # type: ignore[attr-defined]
    assert capsys.readouterr().out.strip() == "['receipt-42', 'parcel-42']"
    assert len([line for line in example.splitlines() if line.strip()]) <= 12
