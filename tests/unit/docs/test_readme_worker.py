"""The README's way to run it, word for word: a module of jobs, `stepwell up`, a result; and a kill in the middle."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell import Stepwell

README = Path(__file__).parents[3] / "README.md"
MODULE = re.compile(r"^```python\n# shop\.py\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECONDS = 60


@pytest.mark.slow
def test_the_module_of_the_readme_runs_under_stepwell_up_and_outlives_a_kill(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    (tmp_path / "shop.py").write_text(MODULE.findall(text)[0], encoding="utf-8")
    assert "stepwell up --app shop:app" in text
    first = start(tmp_path)
    try:
        assert ask(tmp_path, "shop.charge.enqueue(42).result(timeout=30)") == "receipt-42"
        order = int(ask(tmp_path, "shop.fulfil.enqueue(7).id"))
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait(SECONDS)
    second = start(tmp_path)
    try:
        ask(tmp_path, f"shop.charge.enqueue({order}).result(timeout=30)")
        with Stepwell(f"sqlite:///{tmp_path}/shop.db") as app:
            app.reaper().round()
    finally:
        os.killpg(second.pid, signal.SIGTERM)
        assert second.wait(SECONDS) == 0
    with Stepwell(f"sqlite:///{tmp_path}/shop.db") as app:
        assert app.check_invariants() == []
        assert not [step for step in app.steps() if step.state == "Failed"]


def start(directory: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "stepwell.cli", "up", "--app", "shop:app", "--slots", "2"]
    return subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, start_new_session=True)


def ask(directory: Path, question: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", f"import shop; print({question})"],
        cwd=directory, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()
