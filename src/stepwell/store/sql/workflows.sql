-- Declared workflows: starting and reading them.

-- name: insert_workflow(id, namespace, name, version, content_hash, state, actor, context, initiator, source_system, request_reason, tags, bypass_steps, identity, rerun_of, belongs_to, now)!
INSERT INTO steps_workflows (id, namespace, name, version, content_hash, state, actor, context, initiator, source_system,
                             request_reason, tags, bypass_steps, identity, rerun_of, belongs_to, settled_at, created_at, updated_at)
VALUES (:id, :namespace, :name, :version, :content_hash, :state, :actor, :context, :initiator, :source_system,
        :request_reason, :tags, :bypass_steps, :identity, :rerun_of, :belongs_to,
        CASE WHEN :state = 'pending' THEN NULL ELSE :now END, :now, :now)
ON CONFLICT DO NOTHING -- of the identity
@workflow_changes;

-- name: workflow_with_identity(identity)
SELECT id FROM steps_workflows WHERE identity = :identity;

-- name: workflow(id)
SELECT * FROM steps_workflows WHERE id = :id;

-- name: newest_workflows(state, name, before, limit)
WITH newest AS (
    SELECT * FROM steps_workflows
    WHERE (CAST(:state AS text) IS NULL OR state = CAST(:state AS text))
      AND (CAST(:name AS text) IS NULL OR name = CAST(:name AS text))
      AND id < :before
    ORDER BY id DESC LIMIT :limit
)
SELECT w.id, w.namespace, w.name, w.version, w.state, w.initiator, w.created_at, e.execution_status, e.total, e.completed, e.skipped
FROM newest w JOIN (@execution_of(newest)) AS e ON e.workflow_id = w.id
ORDER BY w.id DESC;

-- name: workflow_ids_between(first, last)
SELECT id FROM steps_workflows WHERE id >= :first AND id <= :last ORDER BY id DESC LIMIT 10;

-- name: workflow_transitions(id)
SELECT * FROM steps_workflow_transitions WHERE workflow_id = :id ORDER BY id;

-- name: execution(ids)
-- The view steps_workflow_execution, of these workflows alone.
@execution_of((SELECT * FROM steps_workflows WHERE id @in(:ids uuid)));

-- name: template_steps(id)
SELECT id, uuid, template, kind, state FROM steps
WHERE workflow_id = :id AND workflow_id <> uuid AND template IS NOT NULL AND element IS NULL ORDER BY id;
