-- The views of declared workflows.

-- The finalizer's definition: the state that each declared workflow should have by its steps.
DROP VIEW IF EXISTS steps_workflow_outcomes;
CREATE VIEW steps_workflow_outcomes AS
SELECT w.id AS workflow_id,
       CASE
           -- A step is unfinished, or its lease is held, at any depth; or a handler is about to be promoted.
           WHEN EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.workflow_id = w.id AND NOT u.ended)
                OR EXISTS (SELECT 1 FROM steps_unconcluded u JOIN steps h ON h.id = u.step_id
                           WHERE u.workflow_id = w.id AND u.ended AND u.block_uuid = w.id AND u.type = 'resolve-exception'
                             AND h.reason = 'dormant'
                             AND EXISTS (SELECT 1 FROM steps_unconcluded x JOIN steps f ON f.id = x.step_id
                                         WHERE x.workflow_id = w.id AND x.ended AND x.block_uuid = w.id AND x.type = 'default'
                                           AND f.state IN ('Failed', 'Stopped')))
               THEN 'in_progress'
           WHEN w.state = 'resolved_manually' THEN 'resolved_manually'
           WHEN w.cancelled_at IS NOT NULL THEN 'cancelled'
           -- The outcome of a child is contained in that of its parent, so only the steps of the template count.
           WHEN NOT EXISTS (SELECT 1 FROM steps_unconcluded u
                            WHERE u.workflow_id = w.id AND u.block_uuid = w.id AND u.type = 'default') THEN 'complete'
           WHEN EXISTS (SELECT 1 FROM steps_unconcluded u JOIN steps f ON f.id = u.step_id
                        WHERE u.workflow_id = w.id AND u.block_uuid = w.id AND u.type = 'default'
                          AND f.state IN ('Failed', 'Stopped')) THEN 'error'
           ELSE 'cancelled'
       END AS outcome
FROM steps_workflows w;

-- The execution of each declared workflow in numbers: one view, for one workflow or for many.
DROP VIEW IF EXISTS steps_workflow_execution;
CREATE VIEW steps_workflow_execution AS
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
                                            AND s.state NOT IN ('Completed', 'Skipped') THEN 1 ELSE 0 END) > 0
                         THEN 'blocked_by_failures' ELSE 'all_complete' END
           WHEN sum(CASE WHEN a.status IN ('dispatched', 'running') THEN 1 ELSE 0 END) > 0 THEN 'processing'
           WHEN sum(CASE WHEN a.status IN ('open', 'undecided') THEN 1 ELSE 0 END) > 0 THEN 'has_ready_steps'
           ELSE 'waiting_for_dependencies'
       END AS execution_status
FROM steps_workflows w
LEFT JOIN steps s ON s.workflow_id = w.id AND s.workflow_id <> s.uuid
LEFT JOIN steps_agenda a ON a.step_id = s.id
GROUP BY w.id, w.namespace, w.name, w.version, w.state;
