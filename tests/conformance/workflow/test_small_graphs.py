"""Every small graph with every outcome settles: no workflow waits for what cannot happen."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stepwell import Permanent, Skip, Stepwell, Stop
from stepwell.workflow.live.start import Start
from stepwell.workflow.template import Input, Path, StepTemplate, Template
from tests.conformance.support.engine import Engine

NAMES = ("a", "b", "c")
OUTCOMES = {"ok": "Completed", "fail": "Failed", "stop": "Stopped", "skip": "Skipped"}
DID_NOT_CONCLUDE = {"Failed", "Stopped", "NotRunnable", "Cancelled"}


@dataclass(frozen=True)
class Case:
    """`takes`: by order alone, or as a value that must be there, or as one that may be missing."""

    upstream: dict[str, tuple[str, ...]]
    triggers: dict[str, str]
    outcomes: dict[str, str]
    takes: str

    def template(self, number: int) -> Template:
        return Template(name=f"graph{number}", steps=tuple(map(self._step, NAMES)))

    def _step(self, name: str) -> StepTemplate:
        upstream, trigger = self.upstream[name], self.triggers[name]
        inputs = tuple(
            Input(
                parameter=other, source=Path(other), optional=self.takes == "optional", is_outcome=_is_outcome(trigger)
            )
            for other in upstream
        )
        return StepTemplate(
            name=name,
            action="act",
            after=upstream,
            inputs=() if self.takes == "nothing" else inputs,
            trigger=trigger,  # type: ignore[arg-type]
            arguments={"outcome": self.outcomes[name]},
        )

    def expected(self) -> dict[str, str]:
        """How each step ends, by the rules alone."""
        states: dict[str, str] = {}
        for name in NAMES:
            before = {states[other] for other in self.upstream[name]}
            states[name] = self._state(name, before)
        return states

    def _state(self, name: str, before: set[str]) -> str:
        trigger = self.triggers[name]
        if before and trigger == "any_concluded" and not before & {"Completed", "Skipped"}:
            return "NotRunnable"
        if trigger == "all_concluded":
            if before & DID_NOT_CONCLUDE:
                return "NotRunnable"
            if "Skipped" in before and self.takes == "required":
                return "Skipped"
        return OUTCOMES[self.outcomes[name]]

    def settles_as(self) -> str:
        states = set(self.expected().values())
        if states <= {"Completed", "Skipped"}:
            return "complete"
        return "error" if states & {"Failed", "Stopped"} else "cancelled"


def _is_outcome(trigger: str) -> bool:
    return trigger != "all_concluded"


def cases() -> Iterator[Case]:
    for with_a, from_c in itertools.product([(), ("a",)], [(), ("a",), ("b",), ("a", "b")]):
        upstream = {"a": (), "b": with_a, "c": from_c}
        rules = [
            ("all_concluded", "any_concluded", "all_ended") if upstream[name] else ("all_concluded",) for name in NAMES
        ]
        for triggers in itertools.product(*rules):
            for outcomes in itertools.product(OUTCOMES, repeat=3):
                for takes in ("nothing", "required", "optional"):
                    yield Case(
                        upstream,
                        dict(zip(NAMES, triggers, strict=True)),
                        dict(zip(NAMES, outcomes, strict=True)),
                        takes,
                    )


def act(app: Stepwell) -> None:
    @app.job(name="act")
    def act(outcome: str, a: Any = None, b: Any = None) -> str:
        match outcome:
            case "fail":
                raise Permanent("told to fail")
            case "stop":
                raise Stop("told to stop")
            case "skip":
                raise Skip("told to skip")
        return outcome


def test_every_small_graph_settles_as_the_rules_say(engine: Engine) -> None:
    app, seed = engine.app, 7
    act(app)
    chosen = list(cases())
    assert len(chosen) > 5_000
    chosen = random.Random(seed).sample(chosen, 1_000 if app.database.dialect == "sqlite" else 250)
    started = {}
    for number, case in enumerate(chosen):
        started[app.workflow_engine.starter.start(case.template(number), Start(context="{}"))] = case
    app.run_until_idle(slots=64)

    rows = app.database.read(lambda tx: tx.fetch("SELECT workflow_id, template, state FROM steps", {}))
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        found.setdefault(str(row["workflow_id"]), {})[row["template"]] = row["state"]
    states = {
        str(row["id"]): row["state"]
        for row in app.database.read(lambda tx: tx.fetch("SELECT id, state FROM steps_workflows", {}))
    }
    for workflow_id, case in started.items():
        assert found[workflow_id] == case.expected(), case
        assert states[workflow_id] == case.settles_as(), case
    assert app.check_invariants() == []
    assert app.sweep() == []
