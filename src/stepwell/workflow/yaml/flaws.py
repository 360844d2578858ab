"""The flaws of one document, and the lines at which problems that are found later belong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepwell.workflow.declare.problems import Problem
from stepwell.workflow.declare.words import suggestion
from stepwell.workflow.yaml.document import Flaw, Value
from stepwell.workflow.yaml.fields import MEANT, YAML_NAMES


class Flaws:
    def __init__(self) -> None:
        self.found: list[Flaw] = []
        self._lines: dict[tuple[int, str], int] = {}  # by the line of the step (0: none) and key

    def add(self, value: Value, message: str) -> None:
        self.found.append(Flaw(value.line, message))

    def place(self, step: int, lines: Mapping[str, int]) -> None:
        """Problems with these keys of a step (0: of the workflow) are at these lines; the key "" is any other."""
        self._lines |= {(step, key): line for key, line in lines.items()}

    def place_keys(self, step: int, value: Value) -> None:
        self.place(step, {key: inner.line for key, inner in value.keys.items()})

    def add_problem(self, problem: Problem) -> str:
        """A problem of the workflow becomes a flaw with its line."""
        keys = [problem.key, YAML_NAMES.get(problem.key, problem.key), problem.key.partition(".")[0], ""]
        places = [(problem.at, key) for key in keys] + [(0, "")]
        line = next(self._lines[place] for place in places if place in self._lines)
        text = problem.text(YAML_NAMES.get(problem.key, problem.key))
        self.found.append(Flaw(line, text))
        return text

    def check_keys(self, value: Value, known: Sequence[str], whose: str) -> None:
        for key, inner in value.keys.items():
            if key not in known:
                meant = MEANT.get(key)
                hint = f"did you mean {meant!r}?" if meant in known else suggestion(key, known, "keys")
                self.add(inner, f"{whose}: unknown key {key!r}; {hint}")
