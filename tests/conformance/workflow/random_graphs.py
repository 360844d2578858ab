"""Random workflows with random outcomes, and what must become of them by the rules alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from stepwell.workflow.template import Condition, Each, Input, Path, StepTemplate, Template

ENDS = {"ok": "Completed", "flaky": "Completed", "fail": "Failed", "stop": "Stopped", "skip": "Skipped"}
CONCLUDED = {"Completed", "Skipped"}
EXPIRES = 86_400.0


@dataclass
class RandomStep:
    name: str
    kind: str
    trigger: str
    takes: dict[str, str]  # upstream step: "order", "required" or "optional"
    outcome: Any  # of a map: one for each element; of a gate: "answer" or "expire"
    condition: tuple[str, Any] | None = None  # an upstream step, or the context, and the wanted value

    def fails(self) -> bool:
        found = self.outcome if self.kind == "map" else [self.outcome]
        return any(each in ("fail", "stop", "expire") for each in found)

    def heal(self) -> None:
        """Next time it succeeds; what skips itself still does."""
        if self.kind == "gate":
            self.outcome = "answer"
        elif self.kind == "map":
            self.outcome = [each if each == "skip" else "ok" for each in self.outcome]
        else:
            self.outcome = "ok"

    def own_end(self) -> str:
        """How it ends if it may run."""
        if self.kind == "gate":
            return "Completed" if self.outcome == "answer" else "Failed"
        if self.kind == "map":
            return "Failed" if self.fails() else "Completed"
        return ENDS[self.outcome]


@dataclass
class RandomGraph:
    steps: list[RandomStep]
    fixed: dict[str, str] = field(default_factory=dict)  # steps that keep the state that they have

    def __getitem__(self, name: str) -> RandomStep:
        return next(step for step in self.steps if step.name == name)

    def context(self) -> dict[str, Any]:
        return {"go": True, "lists": {step.name: step.outcome for step in self.steps if step.kind == "map"}}

    def template(self, name: str) -> Template:
        return Template(name=name, steps=tuple(map(self._template, self.steps)))

    def _template(self, step: RandomStep) -> StepTemplate:
        with_data = {other: how for other, how in step.takes.items() if how != "order"}
        inputs = tuple(
            Input(
                parameter=other,
                source=Path(other),
                optional=how == "optional",
                is_list=self[other].kind == "map",
                is_outcome=step.trigger != "all_concluded",
            )
            for other, how in with_data.items()
        )
        needs = [other for other, how in with_data.items() if how == "required"]
        is_gate, is_map = step.kind == "gate", step.kind == "map"
        conditions = () if step.condition is None else (Condition(_path(step.condition[0]), (step.condition[1],)),)
        return StepTemplate(
            name=step.name,
            kind=step.kind,  # type: ignore[arg-type]
            action="" if is_gate else "act",
            after=tuple(step.takes),
            inputs=() if is_gate else inputs,
            conditions=conditions,
            trigger=step.trigger,  # type: ignore[arg-type]
            each=Each("outcome", Path("context", ("lists", step.name))) if is_map else None,
            expires=EXPIRES if is_gate else None,
            skippable=True,
            arguments={} if is_gate else {"needs": needs, **({} if is_map else {"outcome": step.outcome})},
        )

    def expected(self) -> dict[str, str]:
        """The state of each step when nothing is left to do."""
        states: dict[str, str] = {}
        for step in self.steps:
            states[step.name] = self.fixed.get(step.name) or self._state(step, states)
        return states

    def _state(self, step: RandomStep, states: dict[str, str]) -> str:
        before = [states[other] for other in step.takes]
        if step.trigger == "any_concluded" and before and not CONCLUDED & set(before):
            return "NotRunnable"
        if step.trigger == "all_concluded" and not set(before) <= CONCLUDED:
            return "NotRunnable"
        if step.condition is not None:
            source, wanted = step.condition
            found = True if source == "context" else "ok" if states[source] == "Completed" else None
            if (type(found), found) != (type(wanted), wanted):  # for Python, True is 1
                return "Skipped"
        needed = [states[other] for other, how in step.takes.items() if how == "required"]
        if "Skipped" in needed and step.trigger == "all_concluded" and step.kind != "gate":
            return "Skipped"
        return step.own_end()

    def settles_as(self) -> str:
        states = set(self.expected().values())
        if states <= CONCLUDED:
            return "complete"
        return "error" if states & {"Failed", "Stopped"} else "cancelled"


def _path(source: str) -> Path:
    return Path("context", ("go",)) if source == "context" else Path(source)


def random_graph(chance: random.Random) -> RandomGraph:
    graph = RandomGraph([])
    for number in range(chance.randint(2, 7)):
        earlier = [step.name for step in graph.steps]
        upstream = chance.sample(earlier, min(len(earlier), chance.choice([0, 1, 1, 2, 3])))
        kind = chance.choice(["job", "job", "job", "map", "gate"])
        trigger = chance.choice(["all_concluded"] * 3 + ["any_concluded", "all_ended"]) if upstream else "all_concluded"
        step = RandomStep(
            name=f"s{number}",
            kind=kind,
            trigger=trigger,
            takes={name: chance.choice(["order", "required", "optional"]) for name in upstream},
            outcome=_outcome(kind, chance),
        )
        # Under other rules than all_concluded, what a condition finds depends on who is first.
        jobs = [name for name in upstream if graph[name].kind == "job"] if trigger == "all_concluded" else []
        if chance.random() < 0.3:
            source = chance.choice([*jobs, "context"])
            wanted = chance.choice([True, True, 1]) if source == "context" else chance.choice(["ok", "ok", None])
            step.condition = (source, wanted)
        graph.steps.append(step)
    return graph


def _outcome(kind: str, chance: random.Random) -> Any:
    one = ["ok", "ok", "ok", "flaky", "fail", "skip", "stop"]
    match kind:
        case "gate":
            return chance.choice(["answer", "answer", "expire"])
        case "map":
            return [chance.choice(one * 2 + ["ok"] * 6) for _ in range(chance.choice([0, 1, 2, 4]))]
    return chance.choice(one)
