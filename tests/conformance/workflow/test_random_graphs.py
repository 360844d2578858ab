"""Random workflows end as the rules say, also after random actions of operators."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from stepwell import Permanent, Skip, Stepwell, Stop, current_step
from stepwell.model import codec
from stepwell.workflow.live.start import Start
from stepwell.workflow.run import Run
from tests.conformance.support.engine import Engine
from tests.conformance.workflow.random_graphs import CONCLUDED, EXPIRES, RandomGraph, random_graph


def act(outcome: str, needs: list[str], **inputs: Any) -> str:
    missing = [name for name in needs if inputs[name] is None]
    if missing:
        raise Permanent(f"ran without {missing}")
    match outcome:
        case "fail":
            raise Permanent("told to fail")
        case "stop":
            raise Stop("told to stop")
        case "skip":
            raise Skip("told to skip")
        case "flaky" if current_step().attempts == 1:
            raise RuntimeError("told to fail once")
    return "ok"


class World:
    """Many random workflows in one engine."""

    def __init__(self, engine: Engine, seed: int, count: int) -> None:
        self.engine = engine
        self.app: Stepwell = engine.app
        self.chance = random.Random(seed)
        self.app.job(name="act")(act)
        self.graphs: dict[str, RandomGraph] = {}
        for number in range(count):
            graph = random_graph(self.chance)
            request = Start(context=codec.encode(graph.context()))
            self.graphs[self.app.workflow_engine.starter.start(graph.template(f"g{number}"), request)] = graph

    def run(self) -> None:
        """Until nothing changes by itself: answers the gates that are to be answered, and lets the others expire."""
        while True:
            self.engine.settle(slots=64)
            if self._answer_gates():
                continue
            if not self._open_gates():
                return
            self.engine.clock.advance(EXPIRES)

    def _open_gates(self) -> list[dict[str, Any]]:
        return self.engine.sql(
            "SELECT s.id, s.workflow_id, s.template FROM steps_agenda a JOIN steps s ON s.id = a.step_id "
            "WHERE a.status = 'gate'"
        )

    def _answer_gates(self) -> int:
        answered = 0
        for row in self._open_gates():
            if self.graphs[str(row["workflow_id"])][row["template"]].outcome == "expire":
                continue
            answered += 1
            if self.chance.random() < 0.5:
                self.app.workflow_engine.gates.answer(row["id"], "ok", "someone")
            else:
                self.engine.change(
                    "INSERT INTO step_answers (step_id, answer, answered_by, answered_at) "
                    "VALUES (:id, '\"ok\"', 'someone', :at)",
                    id=row["id"],
                    at=self.engine.clock.now(),
                )
        return answered

    def check(self) -> None:
        found: dict[str, dict[str, str]] = {}
        for row in self.engine.sql("SELECT workflow_id, template, state FROM steps WHERE element IS NULL"):
            found.setdefault(str(row["workflow_id"]), {})[row["template"]] = row["state"]
        states = {str(row["id"]): row["state"] for row in self.engine.sql("SELECT id, state FROM steps_workflows")}
        for workflow_id, graph in self.graphs.items():
            assert found[workflow_id] == graph.expected(), graph
            assert states[workflow_id] == graph.settles_as(), graph

    def act_by_hand(self) -> None:
        """Something random by an operator in each workflow that did not conclude."""
        for workflow_id, graph in self.graphs.items():
            states = graph.expected()
            bad = [name for name, state in states.items() if state in ("Failed", "Stopped")]
            if not bad:
                continue
            run, name = Run(self.app, workflow_id), self.chance.choice(bad)
            graph.fixed = {name: state for name, state in states.items() if state != "NotRunnable"}
            match self.chance.choice(["retry", "retry all", "skip", "complete", "cancel and retry"]):
                case "retry":
                    self._heal(run, graph, name)
                    self.app.retry(run.step(name), who="alice")
                case "retry all":
                    for each in bad:
                        self._heal(run, graph, each)
                    run.retry(who="alice")
                case "skip":
                    self.app.skip(run.step(name), who="alice")
                    graph.fixed[name] = "Skipped"
                case "complete":
                    result = ["ok"] if graph[name].kind == "map" else "ok"
                    self.app.complete(run.step(name), who="alice", response=result)
                    graph.fixed[name] = "Completed"
                case _:
                    self._heal(run, graph, name)
                    self.app.retry(run.step(name), who="alice")
                    run.cancel(who="alice")
                    for each in bad:
                        self._heal(run, graph, each)
                    run.retry(who="alice")

    def _heal(self, run: Run, graph: RandomGraph, name: str) -> None:
        step = graph[name]
        step.heal()
        graph.fixed.pop(name, None)
        assert name not in graph.fixed
        if step.kind == "gate":
            return
        for row in self.engine.sql(
            "SELECT id, state, arguments FROM steps WHERE workflow_id = :id AND template = :name AND kind <> 'map'",
            id=run.id,
            name=name,
        ):
            if row["state"] not in CONCLUDED:
                stored = row["arguments"] if isinstance(row["arguments"], dict) else codec.decode(row["arguments"])
                text = codec.encode({**stored, "outcome": "ok"})
                self.engine.change("UPDATE steps SET arguments = :text WHERE id = :id", text=text, id=row["id"])


@pytest.mark.slow
def test_random_workflows_end_as_the_rules_say_also_after_actions_of_operators(engine: Engine) -> None:
    seed = int(os.environ.get("STEPWELL_TEST_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"STEPWELL_TEST_SEED={seed}")
    world = World(engine, seed, 400 if engine.app.database.dialect == "sqlite" else 200)
    world.run()
    world.check()
    for _ in range(2):
        world.act_by_hand()
        world.run()
        world.check()
    assert engine.app.check_invariants() == []
    assert engine.app.sweep() == []
