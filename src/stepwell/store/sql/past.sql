-- The past: every state at an earlier moment, from the history alone.

-- name: steps_at(workflow, id, at)
-- All steps of a workflow, or one step. A parent whose own code is done waits for its children without a change of state,
-- and attempts that were reset are 0 until the next change.
SELECT s.id, s.uuid, s.label, s.action, s.type, s.kind, s.template, s.element, s.parent_step_id, t.to_state AS state,
       CASE WHEN t.to_state = 'Running' AND t.from_state = 'Dispatched' AND s.own_code_done_at <= :at
            THEN 'waiting_for_children' ELSE t.reason END AS reason,
       t.actor, t.at AS since, t.error,
       CASE WHEN EXISTS (SELECT 1 FROM steps_operation_items i JOIN steps_operations o ON o.id = i.operation_id
                         WHERE i.step_id = s.id AND i.made = t.id AND i.at <= :at AND o.kind = 'reset_attempts')
            THEN 0 ELSE t.attempt END AS attempt
FROM steps s
JOIN step_transitions t ON t.step_id = s.id AND t.id = (
    SELECT x.id FROM step_transitions x WHERE x.step_id = s.id AND x.at <= :at ORDER BY x.id DESC LIMIT 1)
WHERE s.uuid = :workflow OR s.workflow_id = :workflow AND s.workflow_id <> s.uuid OR s.id = :id
ORDER BY s.id;

-- name: workflow_at(id, at)
SELECT w.id, w.namespace, w.name, w.version, t.to_state AS state, t.reason, t.actor, t.at AS since
FROM steps_workflows w
JOIN steps_workflow_transitions t ON t.workflow_id = w.id AND t.id = (
    SELECT x.id FROM steps_workflow_transitions x WHERE x.workflow_id = w.id AND x.at <= :at ORDER BY x.id DESC LIMIT 1)
WHERE w.id = :id;

-- name: workflow_exists(id)
SELECT EXISTS (SELECT 1 FROM steps WHERE uuid = :id)
    OR EXISTS (SELECT 1 FROM steps WHERE workflow_id = :id AND workflow_id <> uuid)
    OR EXISTS (SELECT 1 FROM steps_workflows WHERE id = :id);
