-- Declared workflows: starting and settling them, decisions about their steps, gates, and what their steps take.

-- name: insert_workflow(id, namespace, name, version, content_hash, state, actor, context, initiator, source_system, request_reason, tags, bypass_steps, identity, rerun_of, now)!
INSERT INTO steps_workflows (id, namespace, name, version, content_hash, state, actor, context, initiator, source_system,
                             request_reason, tags, bypass_steps, identity, rerun_of, settled_at, created_at, updated_at)
VALUES (:id, :namespace, :name, :version, :content_hash, :state, :actor, :context, :initiator, :source_system,
        :request_reason, :tags, :bypass_steps, :identity, :rerun_of,
        CASE WHEN :state = 'pending' THEN NULL ELSE :now END, :now, :now)
ON CONFLICT DO NOTHING; -- of the identity

-- name: workflow_with_identity(identity)
SELECT id FROM steps_workflows WHERE identity = :identity;

-- name: workflow(id)
SELECT * FROM steps_workflows WHERE id = :id;

-- name: newest_workflows(state, name, limit)
SELECT w.id, w.namespace, w.name, w.version, w.state, w.initiator, w.created_at, e.execution_status, e.total, e.completed, e.skipped
FROM (SELECT * FROM steps_workflows
      WHERE (CAST(:state AS text) IS NULL OR state = CAST(:state AS text))
        AND (CAST(:name AS text) IS NULL OR name = CAST(:name AS text))
      ORDER BY id DESC LIMIT :limit) AS w
CROSS JOIN steps_workflow_execution e WHERE e.workflow_id = w.id
ORDER BY w.id DESC;

-- name: workflow_ids_like(beginning)
SELECT id FROM steps_workflows
WHERE substr(CAST(id AS text), 1, length(:beginning)) = :beginning ORDER BY id DESC LIMIT 10;

-- name: workflow_transitions(id)
SELECT * FROM steps_workflow_transitions WHERE workflow_id = :id ORDER BY id;

-- name: execution(ids)
SELECT * FROM steps_workflow_execution WHERE workflow_id @in(:ids uuid);

-- name: template_steps(id)
SELECT id, uuid, template, kind, state FROM steps
WHERE workflow_id = :id AND workflow_id <> uuid AND template IS NOT NULL AND element IS NULL ORDER BY id;

-- name: record_template(namespace, name, version, content_hash, definition, now)!
INSERT INTO steps_templates (namespace, name, version, content_hash, definition, registered_at)
VALUES (:namespace, :name, :version, :content_hash, :definition, :now)
ON CONFLICT (namespace, name, version) DO NOTHING;

-- name: replace_template(namespace, name, version, content_hash, definition, now)!
UPDATE steps_templates SET content_hash = :content_hash, definition = :definition, registered_at = :now
WHERE namespace = :namespace AND name = :name AND version = :version;

-- name: recorded_template(namespace, name, version)
SELECT content_hash FROM steps_templates WHERE namespace = :namespace AND name = :name AND version = :version;

-- The finalizer ----------------------------------------------------------------------------------------

-- name: lock_workflows(ids)
-- Always in the same order, and after all locks on steps.
SELECT id, namespace, name, version, state FROM steps_workflows WHERE id @in(:ids uuid)
ORDER BY id @postgres(FOR UPDATE);

-- name: settle(ids, actor, now)
UPDATE steps_workflows SET
    state = (SELECT o.outcome FROM steps_workflow_outcomes o WHERE o.workflow_id = steps_workflows.id),
    reason = CASE WHEN cancelled_at IS NOT NULL THEN reason END, actor = :actor, updated_at = @sqlite(max)@postgres(greatest)(updated_at, :now),
    settled_at = CASE (SELECT o.outcome FROM steps_workflow_outcomes o WHERE o.workflow_id = steps_workflows.id)
                 WHEN 'in_progress' THEN NULL ELSE :now END
WHERE id @in(:ids uuid)
  AND state <> (SELECT o.outcome FROM steps_workflow_outcomes o WHERE o.workflow_id = steps_workflows.id)
RETURNING id, state, reason, updated_at;

-- name: forget_cancellation(ids)!
-- A step was revived after the cancellation: what counts is how the workflow ends now.
UPDATE steps_workflows SET cancelled_at = NULL
WHERE id @in(:ids uuid) AND cancelled_at IS NOT NULL
  AND EXISTS (SELECT 1 FROM steps_unconcluded u JOIN steps s ON s.id = u.step_id
              WHERE u.workflow_id = steps_workflows.id AND NOT u.ended AND s.state IN ('Pending', 'Dispatched', 'Running'));

-- name: lock_for_new_steps(id)
-- Until this transaction ends, the workflow cannot settle.
SELECT state FROM steps_workflows WHERE id = :id @postgres(FOR UPDATE);

-- Decisions --------------------------------------------------------------------------------------------

-- name: undecided_steps(group, limit)
SELECT s.id, s.workflow_id, s.template, s.kind, s.plan, s.undecided, s.trigger_rule, s.decision
FROM steps_agenda a JOIN steps s ON s.id = a.step_id AND s.state = 'Pending'
WHERE a.status = 'undecided' AND a."group" = :group
  AND (SELECT @ready(r) FROM step_readiness r WHERE r.step_id = a.step_id)
ORDER BY a.step_id LIMIT :limit;

-- name: withdraw_undecided(group)!
-- No longer ready: an upstream step was retried, or the workflow was paused. What ends next marks it again.
DELETE FROM steps_agenda
WHERE status = 'undecided' AND "group" = :group
  AND NOT (SELECT @ready(r) FROM step_readiness r WHERE r.step_id = steps_agenda.step_id);

-- name: skip_undecided(id, reason, message, decision, actor, now)
UPDATE steps SET @to('Skipped'), reason = :reason, error_message = :message, decision = :decision, undecided = NULL,
    completed_at = :now
WHERE id = :id AND state = 'Pending'
@changes;

-- name: record_decision(id, decision, dispatch_after)!
UPDATE steps SET undecided = NULL, decision = :decision, dispatch_after = :dispatch_after, changed_from = NULL
WHERE id = :id AND state = 'Pending';

-- name: open_decided(id, due_at)!
UPDATE steps_agenda SET status = CASE WHEN @time(:due_at) IS NULL THEN 'open' ELSE 'delayed' END, due_at = :due_at
WHERE step_id = :id AND status = 'undecided';

-- Gates ------------------------------------------------------------------------------------------------

-- name: open_gate(id, due_at)!
UPDATE steps_agenda SET status = 'gate', due_at = :due_at WHERE step_id = :id AND status = 'undecided';

-- name: due_gates(group, now)
SELECT s.id, s.workflow_id, s.template, s.plan, s.decision, n.answer, n.answered_by, n.reason, n.answered_at
FROM steps_agenda a JOIN steps s ON s.id = a.step_id AND s.state = 'Pending' LEFT JOIN step_answers n ON n.step_id = s.id
WHERE a.status = 'gate' AND a."group" = :group AND a.due_at <= :now
ORDER BY a.step_id;

-- name: lock_gate(id)
-- An open gate, locked on the agenda, so that two answers wait for each other.
SELECT s.id, s.uuid, s.label, s.template, s.state, s.actor, s.completed_at, s.kind, s.plan, s.decision, s.workflow_id, a.status
FROM steps s LEFT JOIN steps_agenda a ON a.step_id = s.id
WHERE s.id = :id @postgres(FOR UPDATE OF s);

-- name: answer_of(id)
SELECT answer, answered_by, reason, answered_at FROM step_answers WHERE step_id = :id;

-- name: add_answer(id, answer, answered_by, reason, now)!
INSERT INTO step_answers (step_id, answer, answered_by, reason, answered_at)
VALUES (:id, :answer, :answered_by, :reason, :now);

-- name: delete_answer(id)!
DELETE FROM step_answers WHERE step_id = :id;

-- name: postpone_gate(id, due_at)!
UPDATE steps_agenda SET due_at = :due_at WHERE step_id = :id AND status = 'gate';

-- name: record_refusal(id, decision)!
UPDATE steps SET decision = :decision, changed_from = NULL WHERE id = :id AND state = 'Pending';

-- name: expire_gate(id, message, actor, now)
UPDATE steps SET @to('Failed'), reason = 'gate_expired', error_message = :message, last_error = :message, completed_at = :now
WHERE id = :id AND kind = 'gate' AND state = 'Pending'
@changes;

-- What the steps take ----------------------------------------------------------------------------------

-- name: upstream_steps(ids)
SELECT e.step_id, d.id, d.template, d.kind, d.state, d.reason, d.response, d.error_message, d.child_block_uuid
FROM step_dependencies e JOIN steps d ON d.id = e.depends_on_id
WHERE e.step_id @in(:ids bigint);

-- name: elements(blocks)
SELECT block_uuid, element, state, reason, response, error_message FROM steps
WHERE block_uuid @in(:blocks uuid) AND block_uuid <> uuid AND element IS NOT NULL
ORDER BY block_uuid, element;

-- name: failures_behind(ids)
-- Upstream steps and children of these steps that ended without having concluded.
SELECT d.id, d.label, d.action, d.state, d.reason, d.error_message
FROM step_dependencies e JOIN steps d ON d.id = e.depends_on_id
WHERE e.step_id @in(:ids bigint) AND d.state IN ('Failed', 'Stopped', 'Cancelled', 'NotRunnable')
UNION
SELECT c.id, c.label, c.action, c.state, c.reason, c.error_message
FROM steps p JOIN steps_unconcluded u ON u.block_uuid = p.child_block_uuid AND u.type = 'default'
JOIN steps c ON c.id = u.step_id
WHERE p.id @in(:ids bigint) AND p.reason = 'children_failed' AND c.state IN ('Failed', 'Stopped', 'Cancelled')
ORDER BY 1;

-- name: plans(ids)
SELECT id, plan FROM steps WHERE id @in(:ids bigint);

-- name: plans_of_dependents(id)
SELECT s.plan FROM step_dependencies e JOIN steps s ON s.id = e.step_id
WHERE e.depends_on_id = :id AND s.plan IS NOT NULL;

-- name: waiting_dependents(ids)
-- What depends on these steps and has not begun, with the name of the step that it depends on.
SELECT s.id, s.plan, d.template AS upstream
FROM steps d JOIN step_dependencies e ON e.depends_on_id = d.id JOIN steps s ON s.id = e.step_id
WHERE d.id @in(:ids bigint) AND s.plan IS NOT NULL AND d.template IS NOT NULL
  AND (s.state = 'Pending' AND s.attempts = 0 OR s.state = 'NotRunnable' AND s.reason = 'predecessor_failed');

-- name: planned_steps(id)
-- The steps of a template, and the elements of its maps.
SELECT id, template, element, kind, plan, state, arguments, response FROM steps
WHERE workflow_id = :id AND workflow_id <> uuid AND template IS NOT NULL
ORDER BY template, element;

-- name: live_steps(after, limit)
-- Steps of templates, and elements of their maps, whose code has yet to run or may run again. An element takes what the
-- plan of its map says.
SELECT s.id, s.workflow_id, s.template, s.element, s.action, s.arguments,
       CASE WHEN s.element IS NULL THEN s.id ELSE s.parent_step_id END AS planned_id
FROM steps_unconcluded u JOIN steps s ON s.id = u.step_id
WHERE u.step_id > :after AND u.workflow_id IS NOT NULL AND NOT u.ended AND s.template IS NOT NULL AND s.kind <> 'gate'
  AND (s.state IN ('Pending', 'Dispatched') OR s.state = 'Running' AND s.own_code_done_at IS NULL)
ORDER BY u.step_id LIMIT :limit;

-- name: contexts(ids)
SELECT id, context FROM steps_workflows WHERE id @in(:ids uuid);
