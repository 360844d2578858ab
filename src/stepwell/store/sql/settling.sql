-- Settling workflows: their states follow from their steps.

-- name: lock_workflows(ids)
-- Always in the same order, and after all locks on steps.
SELECT id, namespace, name, version, state, belongs_to FROM steps_workflows WHERE id @in(:ids uuid)
ORDER BY id @postgres(FOR UPDATE);

-- name: settle(ids, actor, now)
UPDATE steps_workflows SET
    state = (SELECT o.outcome FROM steps_workflow_outcomes o WHERE o.workflow_id = steps_workflows.id),
    reason = CASE WHEN cancelled_at IS NOT NULL THEN reason END, actor = :actor, updated_at = @sqlite(max)@postgres(greatest)(updated_at, :now),
    settled_at = CASE (SELECT o.outcome FROM steps_workflow_outcomes o WHERE o.workflow_id = steps_workflows.id)
                 WHEN 'in_progress' THEN NULL ELSE :now END
WHERE id @in(:ids uuid)
  AND state <> (SELECT o.outcome FROM steps_workflow_outcomes o WHERE o.workflow_id = steps_workflows.id)
@workflow_changes;

-- name: forget_cancellation(ids)!
-- A step was revived after the cancellation: what counts is how the workflow ends now.
UPDATE steps_workflows SET cancelled_at = NULL
WHERE id @in(:ids uuid) AND cancelled_at IS NOT NULL
  AND EXISTS (SELECT 1 FROM steps_unconcluded u JOIN steps s ON s.id = u.step_id
              WHERE u.workflow_id = steps_workflows.id AND NOT u.ended AND s.state IN @unfinished);

-- name: lock_for_new_steps(id)
-- Until this transaction ends, the workflow cannot settle.
SELECT state FROM steps_workflows WHERE id = :id @postgres(FOR UPDATE);
