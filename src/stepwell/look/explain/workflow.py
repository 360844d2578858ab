"""The answer to "why has this workflow not completed?": the chains behind all of its steps, together."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.look.explain.chain import Chain
from stepwell.look.explain.explanation import LISTED, explain_step, root_causes
from stepwell.look.explain.facts import MOST, gather
from stepwell.look.explain.found import Source
from stepwell.look.explain.result import WorkflowExplanation
from stepwell.look.explain.sources import SOURCES
from stepwell.store import Database, Transaction
from stepwell.store.engine import explaining, sweep


def explain_workflow(database: Database, workflow_id: str, sources: Sequence[Source] = SOURCES) -> WorkflowExplanation:
    """Check every step of a declared workflow that has not concluded, and all steps behind them."""
    writer = database.suspended_writer()

    def look(tx: Transaction) -> WorkflowExplanation:
        sweep.use_one_snapshot(tx)
        ids = sorted(explaining.unconcluded_of_workflow(tx, workflow=workflow_id, most=MOST))
        facts = gather(tx, ids, database.now(), writer)
        asked = [step_id for step_id in ids if step_id in facts.steps]
        chain = Chain(facts, asked, sources)
        roots = root_causes(chain)
        return WorkflowExplanation(
            workflow_id=workflow_id,
            steps=[explain_step(facts.steps[each], chain.obstacles[each]) for each in asked[:LISTED]],
            steps_more=max(0, len(ids) - LISTED),
            roots=roots[:LISTED],
            roots_more=max(0, len(roots) - LISTED),
            is_complete=facts.is_complete and not chain.unexamined and len(asked) == len(ids),
        )

    return database.read(look)
