"""A worker that is killed with steps in every stage of a claim: only runs that had begun count as deaths."""

from __future__ import annotations

import pytest

from stepwell import NewStep
from tests.survival.support import Cluster


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_only_the_run_that_had_begun_is_charged_for_the_death_of_its_worker(cluster: Cluster, executor: str) -> None:
    """Short steps are claimed ahead; one takes longer, and the worker is killed before it hands the others back."""
    drafts = [NewStep(action="act", label=f"short {number}", max_retries=0) for number in range(300)]
    drafts[150] = NewStep(action="act", arguments={"behaviour": "wait", "go": "go"}, label="long", max_retries=0)
    refs = cluster.app.enqueue_many(drafts)
    cluster.refs = {str(draft.label): ref for draft, ref in zip(drafts, refs, strict=True)}
    killed = cluster.start(executor=executor, slots=1)
    cluster.until_started("long")
    cluster.until(lambda: _is_begun(cluster, "long"), reap=False)
    killed.kill()
    held = [label for label in cluster.refs if str(cluster[label].state) == "Running"]
    cluster.until(lambda: all(cluster[label].reason == "rescued" for label in held))
    charged = {label for label in held if cluster[label].rescues}
    assert "long" in charged
    assert all(cluster.entries("started", label) for label in charged)

    cluster.release("go")
    cluster.start(executor=executor, slots=1)
    cluster.until_all()


def _is_begun(cluster: Cluster, label: str) -> bool:
    sql = f"SELECT begun FROM steps WHERE id = {cluster.refs[label].id}"
    return bool(cluster.app.database.read(lambda tx: tx.fetch(sql, {}))[0]["begun"])
