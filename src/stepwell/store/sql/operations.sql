-- Operations: what operators did, or are about to do, and to which steps and workflows.

-- name: insert_operation(kind, state, filters, parameters, actor, reason, undo_of, now)
INSERT INTO steps_operations (kind, state, filters, parameters, actor, reason, undo_of, created_at, started_at, ended_at)
VALUES (:kind, :state, :filters, :parameters, :actor, :reason, :undo_of, :now,
        CASE WHEN :state IN ('running', 'done') THEN @time(:now) END, CASE WHEN :state = 'done' THEN @time(:now) END)
RETURNING id;

-- name: set_parameters(id, parameters)!
UPDATE steps_operations SET parameters = :parameters WHERE id = :id;

-- name: operation(id)
SELECT * FROM steps_operations WHERE id = :id;

-- name: lock_operation(id)
-- Two programs that execute the same operation take turns.
SELECT * FROM steps_operations WHERE id = :id @postgres(FOR UPDATE);

-- name: newest_operations(before, limit)
SELECT * FROM steps_operations WHERE id < :before AND state IN ('running', 'done') ORDER BY id DESC LIMIT :limit;

-- name: operations_of_step(step_id, limit)
SELECT o.* FROM steps_operation_items i JOIN steps_operations o ON o.id = i.operation_id AND o.state IN ('running', 'done')
WHERE i.step_id = :step_id ORDER BY i.id DESC LIMIT :limit;

-- name: operations_of_workflow(workflow_id, limit)
SELECT o.* FROM steps_operation_items i JOIN steps_operations o ON o.id = i.operation_id AND o.state IN ('running', 'done')
WHERE i.workflow_id = :workflow_id ORDER BY i.id DESC LIMIT :limit;

-- name: undo_of(id)
SELECT id FROM steps_operations WHERE undo_of = :id ORDER BY id LIMIT 1;

-- name: end_preview(id)!
UPDATE steps_operations SET state = 'previewed' WHERE id = :id AND state = 'previewing';

-- name: start_operation(id, actor, reason, pace, now)!
UPDATE steps_operations SET state = 'running', actor = :actor, reason = :reason, pace = :pace, started_at = :now
WHERE id = :id AND state = 'previewed';

-- name: postpone_operation(id, next_at)!
UPDATE steps_operations SET next_at = :next_at WHERE id = :id;

-- name: end_operation(id, now)!
UPDATE steps_operations SET state = 'done', ended_at = :now WHERE id = :id AND state = 'running';

-- name: delete_items_of_previews(before)!
DELETE FROM steps_operation_items
WHERE operation_id @in(SELECT id FROM steps_operations WHERE state IN ('previewing', 'previewed') AND created_at < :before);

-- name: delete_previews(before)!
DELETE FROM steps_operations WHERE state IN ('previewing', 'previewed') AND created_at < :before;

-- Items ------------------------------------------------------------------------------------------------

-- name: freeze_for_undo(operation, undone)!
-- What an operation has done itself; the rest follows from it.
INSERT INTO steps_operation_items (operation_id, step_id, workflow_id, role, state, seen)
SELECT :operation, step_id, workflow_id, 'target', state, made FROM steps_operation_items
WHERE operation_id = :undone AND role = 'target' AND outcome = 'done' AND because_of IS NULL ORDER BY id;

-- name: steps_to_assess(operation, after, limit)
SELECT i.id AS item_id, i.seen, (SELECT max(t.id) FROM step_transitions t WHERE t.step_id = i.step_id) AS version,
       s.id, s.label, s.action, s.state, s.reason, s.type, s.lease_worker, s.parent_step_id, s.own_code_done_at,
       s.child_block_uuid, s.kind, s.template, s.element,
       s.parent_step_id IS NULL AND s.block_uuid = s.uuid AND NOT s.has_children AND NOT s.has_dependents AS alone
FROM steps_operation_items i JOIN steps s ON s.id = i.step_id
WHERE i.operation_id = :operation AND i.role = 'target' AND i.id > :after
ORDER BY i.id LIMIT :limit;

-- name: workflows_to_assess(operation, after, limit)
SELECT id AS item_id, workflow_id AS id FROM steps_operation_items
WHERE operation_id = :operation AND role = 'target' AND id > :after
ORDER BY id LIMIT :limit;

-- name: open_items(operation, limit)
SELECT id, step_id, workflow_id, state, seen FROM steps_operation_items
WHERE operation_id = :operation AND role = 'target' AND outcome IS NULL ORDER BY id LIMIT :limit;

-- name: step_versions(ids)
SELECT s.id, (SELECT max(t.id) FROM step_transitions t WHERE t.step_id = s.id) AS version, s.state, s.reason
FROM steps s WHERE s.id @in(:ids bigint);

-- name: workflow_versions(ids)
SELECT w.id, (SELECT max(t.id) FROM steps_workflow_transitions t WHERE t.workflow_id = w.id) AS version, w.state,
       EXISTS (SELECT 1 FROM steps_paused_workflows p WHERE p.workflow_id = w.id) AS paused
FROM steps_workflows w WHERE w.id @in(:ids uuid);

-- name: record_expected(ids)!
UPDATE steps_operation_items SET expected = 'done' WHERE id @in(:ids bigint);

-- name: record_expected_refusal(id, message)!
UPDATE steps_operation_items SET expected = 'refused', message = :message WHERE id = :id;

-- name: record_done(ids, now)!
UPDATE steps_operation_items SET outcome = 'done', message = NULL, at = :now,
    made = CASE WHEN step_id IS NOT NULL
                THEN (SELECT max(t.id) FROM step_transitions t WHERE t.step_id = steps_operation_items.step_id)
                ELSE (SELECT max(t.id) FROM steps_workflow_transitions t
                      WHERE t.workflow_id = steps_operation_items.workflow_id) END
WHERE id @in(:ids bigint);

-- name: record_outcome(id, outcome, message, now)!
UPDATE steps_operation_items SET outcome = :outcome, message = :message, at = :now WHERE id = :id;

-- name: expect_also(operation, ids, effect, because_of)!
INSERT INTO steps_operation_items (operation_id, step_id, role, effect, because_of, state, expected)
SELECT :operation, s.id, 'also', :effect, @sqlite(:because_of)@postgres(CAST(:because_of AS bigint)), s.state, 'done' FROM steps s WHERE s.id @in(:ids bigint)
ON CONFLICT (operation_id, step_id) WHERE step_id IS NOT NULL DO NOTHING;

-- name: record_also(operation, ids, effect, because_of, now)!
-- A step that is a target itself has been dealt with, too.
INSERT INTO steps_operation_items (operation_id, step_id, role, effect, because_of, outcome, at, made)
SELECT :operation, s.id, 'also', :effect, @sqlite(:because_of)@postgres(CAST(:because_of AS bigint)), 'done', :now,
       (SELECT max(t.id) FROM step_transitions t WHERE t.step_id = s.id)
FROM steps s WHERE s.id @in(:ids bigint)
ON CONFLICT (operation_id, step_id) WHERE step_id IS NOT NULL DO UPDATE SET
    effect = excluded.effect, because_of = excluded.because_of, outcome = 'done', message = NULL, at = excluded.at,
    made = excluded.made
WHERE steps_operation_items.outcome IS NULL;

-- name: record_step(operation, step_id, state, now)!
-- The one step that a single action is about.
INSERT INTO steps_operation_items (operation_id, step_id, role, state, outcome, at, made)
VALUES (:operation, :step_id, 'target', :state, 'done', :now,
        (SELECT max(t.id) FROM step_transitions t WHERE t.step_id = @sqlite(:step_id)@postgres(CAST(:step_id AS bigint))));

-- name: record_workflow(operation, workflow_id, state, now)!
INSERT INTO steps_operation_items (operation_id, workflow_id, role, state, outcome, at, made)
VALUES (:operation, :workflow_id, 'target', :state, 'done', :now,
        (SELECT max(t.id) FROM steps_workflow_transitions t WHERE t.workflow_id = @sqlite(:workflow_id)@postgres(CAST(:workflow_id AS uuid))));

-- name: cancellation_stands(operation, workflow_id)
-- Whether a workflow is cancelled by this operation, and not by a later one.
SELECT w.cancelled_at IS NOT NULL AND w.cancelled_at = i.at
FROM steps_workflows w JOIN steps_operation_items i ON i.workflow_id = w.id AND i.operation_id = :operation
WHERE w.id = :workflow_id;

-- Looking at them --------------------------------------------------------------------------------------

-- name: count_items(operation)
SELECT role, effect, expected, outcome, count(*) AS items FROM steps_operation_items
WHERE operation_id = :operation GROUP BY role, effect, expected, outcome;

-- name: targets_of(ids, most)
-- How many steps or workflows each of these operations is about (no more than `most` are counted), and the first of them.
SELECT o.id,
       (SELECT count(*) FROM (SELECT 1 FROM steps_operation_items i
                              WHERE i.operation_id = o.id AND i.role = 'target' LIMIT :most) AS counted) AS targets,
       first.step_id, first.workflow_id
FROM steps_operations o LEFT JOIN steps_operation_items first
    ON first.id = (SELECT min(i.id) FROM steps_operation_items i WHERE i.operation_id = o.id AND i.role = 'target')
WHERE o.id @in(:ids bigint);

-- name: targets_by_action(operation)
SELECT s.action, i.state, count(*) AS steps FROM steps_operation_items i JOIN steps s ON s.id = i.step_id
WHERE i.operation_id = :operation AND i.role = 'target' GROUP BY s.action, i.state ORDER BY count(*) DESC, s.action, i.state;

-- name: items(operation, role, expected, outcome, after, limit)
SELECT id, step_id, workflow_id, role, effect, because_of, state, expected, outcome, message, at FROM steps_operation_items
WHERE operation_id = :operation AND role = :role AND id > :after
  AND (CAST(:expected AS text) IS NULL OR expected = :expected)
  AND (CAST(:outcome AS text) IS NULL OR outcome = :outcome)
ORDER BY id LIMIT :limit;
