"""Declared workflows: whether their state follows from their steps, and their execution in numbers."""

from __future__ import annotations

from typing import Final

from stepwell.store.macros.macro import Macros, split

_EXECUTION: Final = """\
SELECT w.id AS workflow_id, w.namespace, w.name, w.version, w.state,
       count(s.id) AS total,
       sum(CASE WHEN s.state = 'Pending' THEN 1 ELSE 0 END) AS pending,
       sum(CASE WHEN s.state = 'Dispatched' THEN 1 ELSE 0 END) AS dispatched,
       sum(CASE WHEN s.state = 'Running' THEN 1 ELSE 0 END) AS running,
       sum(CASE WHEN s.state = 'Completed' THEN 1 ELSE 0 END) AS completed,
       sum(CASE WHEN s.state = 'Skipped' THEN 1 ELSE 0 END) AS skipped,
       sum(CASE WHEN s.state = 'Failed' THEN 1 ELSE 0 END) AS failed,
       sum(CASE WHEN s.state = 'Stopped' THEN 1 ELSE 0 END) AS stopped,
       sum(CASE WHEN s.state = 'Cancelled' THEN 1 ELSE 0 END) AS cancelled,
       sum(CASE WHEN s.state = 'NotRunnable' THEN 1 ELSE 0 END) AS not_runnable,
       sum(CASE WHEN a.status IN ('open', 'undecided') THEN 1 ELSE 0 END) AS eligible,
       sum(CASE WHEN s.state = 'Pending' AND a.step_id IS NULL THEN 1 ELSE 0 END) AS blocked,
       sum(CASE WHEN a.status = 'gate' THEN 1 ELSE 0 END) AS open_gates,
       @sqlite(group_concat)@postgres(string_agg)(CASE WHEN a.status = 'gate' THEN s.template END, ', ') AS gates,
       min(CASE WHEN a.status IN ('delayed', 'gate') THEN a.due_at END) AS next_change_at,
       CASE
           WHEN w.state NOT IN ('pending', 'in_progress')
               THEN CASE WHEN sum(CASE WHEN s.parent_step_id IS NULL AND s.type = 'default'
                                            AND s.state NOT IN @concluded THEN 1 ELSE 0 END) > 0
                         THEN 'blocked_by_failures' ELSE 'all_complete' END
           WHEN sum(CASE WHEN a.status IN ('dispatched', 'running') THEN 1 ELSE 0 END) > 0 THEN 'processing'
           WHEN sum(CASE WHEN a.status IN ('open', 'undecided') THEN 1 ELSE 0 END) > 0 THEN 'has_ready_steps'
           ELSE 'waiting_for_dependencies'
       END AS execution_status
FROM {workflows} w
LEFT JOIN steps s ON s.workflow_id = w.id AND s.workflow_id <> s.uuid
LEFT JOIN steps_agenda a ON a.step_id = s.id
GROUP BY w.id, w.namespace, w.name, w.version, w.state"""


def _execution_of(workflows: str) -> str:
    """The view `steps_workflow_execution` for these workflows: a table, or a SELECT in brackets.

    Statements insert it with the workflows that they ask for: SQLite does not push a list of ids down into a view that
    counts, and would read the steps of every workflow that ever ran.
    """
    return _EXECUTION.format(workflows=workflows)


def _outdated(rows: str) -> str:
    """Whether the state of a declared workflow is not that of its steps: `workflow, outcome`.

    A workflow is pending until a step leaves Pending or a gate opens; its steps alone say in_progress.
    """
    workflow, outcome = split(rows)
    begun = (
        f"EXISTS (SELECT 1 FROM steps b WHERE b.workflow_id = {workflow}.id AND b.workflow_id <> b.uuid\n"
        f"        AND b.state IN ('Dispatched', 'Running'))"
    )
    return (
        f"CASE WHEN {workflow}.state = 'pending' THEN {outcome}.outcome <> 'in_progress' OR {begun}\n"
        f"     ELSE {outcome}.outcome <> {workflow}.state END"
    )


MACROS: Final[Macros] = {
    # The columns that a change of the states of workflows returns: `store.changes.WorkflowChange`.
    "workflow_changes": (
        "RETURNING id AS workflow_id, namespace, name, version, NULL AS from_state, state AS to_state, reason, actor,\n"
        "    updated_at AS at, NULL AS execution, belongs_to"
    ),
    "execution_of": _execution_of,
    "outdated": _outdated,
}
