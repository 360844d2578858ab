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
                                           AND f.state IN @failed))
               THEN 'in_progress'
           WHEN w.state = 'resolved_manually' THEN 'resolved_manually'
           WHEN w.cancelled_at IS NOT NULL THEN 'cancelled'
           -- The outcome of a child is contained in that of its parent, so only the steps of the template count.
           WHEN NOT EXISTS (SELECT 1 FROM steps_unconcluded u
                            WHERE u.workflow_id = w.id AND u.block_uuid = w.id AND u.type = 'default') THEN 'complete'
           WHEN EXISTS (SELECT 1 FROM steps_unconcluded u JOIN steps f ON f.id = u.step_id
                        WHERE u.workflow_id = w.id AND u.block_uuid = w.id AND u.type = 'default'
                          AND f.state IN @failed) THEN 'error'
           ELSE 'cancelled'
       END AS outcome
FROM steps_workflows w;

-- The execution of each declared workflow in numbers: one view, for one workflow or for many.
DROP VIEW IF EXISTS steps_workflow_execution;
CREATE VIEW steps_workflow_execution AS
@execution_of(steps_workflows);
