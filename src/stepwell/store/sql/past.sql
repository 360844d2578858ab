-- The past: every state at an earlier moment, from the history alone.

-- name: steps_of_workflow_at(workflow, at)
@step_then
WHERE s.uuid = :workflow OR s.workflow_id = :workflow AND s.workflow_id <> s.uuid
ORDER BY s.id;

-- name: step_at(id, at)
@step_then
WHERE s.id = :id;

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
